// The products of a block's four linear layers, forward and both gradients, by the provider that the model takes; also by each other one that this build has,
// but for the portable one on a GPU. FLOPs 2·M·N·L: kernels/matmul/matmul.hpp.
#include "benchmarks/cases/cases.hpp"
#include "kernels/matmul/matmul.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;
using k::MatmulProvider;
using k::Transpose;

enum class Pass { forward, input, weight };
constexpr const char* kPassNames[] = {"forward", "input", "weight"};

struct Layer {
  const char* name;
  std::int64_t in, out;
};

// y = x·wᵀ, dx = dy·w, dw = dyᵀ·x as C = op(A)·op(B).
Set product(Pool& p, std::int64_t T, const Layer& l, Pass pass, DType dtype, MatmulProvider provider) {
  const Tensor x = p.take(dtype, {T, l.in}), w = p.take(dtype, {l.out, l.in}), y = p.take(dtype, {T, l.out}),
               work = p.take(DType::u8, {k::matmul_workspace()}), corner = p.take(DType::f32, {8, 8});
  const Tensor a = pass == Pass::forward ? x : y, b = pass == Pass::weight ? x : w,
               c = pass == Pass::forward ? y
                   : pass == Pass::input ? x
                                         : w;
  k::MatmulOptions options{.a = pass == Pass::weight ? Transpose::yes : Transpose::no,
                           .b = pass == Pass::forward ? Transpose::yes : Transpose::no,
                           .provider = provider};
  const Call call = [=, &p] { k::matmul(p.stream(), a, b, options, work, c); };
  return {call, [=, &p]() -> Check {
            call();
            k::MatmulOptions portable = options;
            portable.provider = MatmulProvider::reference;
            k::matmul(p.stream(), a.slice(pass == Pass::weight ? 1 : 0, 0, 8),
                      b.slice(pass == Pass::forward ? 0 : 1, 0, 8), portable, work, corner);
            const std::vector<double> want = values(p.stream(), corner), got = values(p.stream(), c.slice(0, 0, 8));
            const std::int64_t N = c.extent(1), sum = pass == Pass::forward ? l.in : pass == Pass::input ? l.out : T;
            Worst worst(std::sqrt(double(sum)));
            for (std::int64_t i = 0; i < 64; ++i) worst.add(got[std::size_t(i / 8 * N + i % 8)], want[std::size_t(i)]);
            return {worst.error(), dtype == DType::bf16 ? 8e-3 : 2e-3, "the portable product, 8 x 8"};
          }};
}

}  // namespace

void add_products(Cases& cases, const Preset& s, DType dtype) {
  const Layer layers[] = {{"qkv", s.dim, s.width()},
                          {"output", s.heads * s.head_size, s.dim},
                          {"gate_up", s.dim, 2 * s.ffn},
                          {"down", s.ffn, s.dim}};
  const std::pair<MatmulProvider, const char*> providers[] = {{MatmulProvider::automatic, ""},
                                                              {MatmulProvider::reference, "/reference"},
                                                              {MatmulProvider::blas, "/blas"},
                                                              {MatmulProvider::onednn, "/onednn"},
                                                              {MatmulProvider::tiles, "/tiles"}};
  const std::int64_t T = s.tokens;
  for (const Layer& l : layers)
    for (const Pass pass : {Pass::forward, Pass::input, Pass::weight})
      for (const auto& [provider, suffix] : providers) {
        const bool named = provider != MatmulProvider::automatic;
        const bool slow = device_info().is_gpu && provider == MatmulProvider::reference;
        if (named && (slow || !k::has_provider(provider, dtype))) continue;
        const std::string op = std::string("matmul_") + l.name + "_" + kPassNames[int(pass)];
        cases.push_back(
            {.name = op_name(s, op, dtype) + suffix,
             .component = "forward",
             .dtype = std::string(name_of(dtype)),
             .work = {.flops = 2.0 * double(T) * double(l.in) * double(l.out), .source = "kernels/matmul/matmul.hpp"},
             .make = [=, q = provider](Pool& p) { return product(p, T, l, pass, dtype, q); },
             .quick = !named && op == "matmul_gate_up_forward"});
      }
}

}  // namespace mylos::bench
