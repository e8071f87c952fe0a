// oneDNN on the CPU: sgemm for f32, the matmul primitive for bf16 (AMX or AVX512-BF16), with primitives kept by shape.
#include <dnnl.hpp>

#include <bit>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "kernels/matmul/providers.hpp"

namespace mylos::kernels::detail {
namespace {

dnnl::engine& cpu() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

struct Primitive {
  dnnl::matmul run;
  dnnl::memory::desc a, b, c;
};

// Addresses may be anything to oneDNN; the factors are part of its primitive.
using Key = std::tuple<ProductShape, std::int32_t, std::int32_t>;

Key key_of(const Product& p) {
  ProductShape shape = shape_of(p);
  shape.alignment = {};
  return {shape, std::bit_cast<std::int32_t>(p.alpha), std::bit_cast<std::int32_t>(p.beta)};
}

dnnl::memory::desc describe(std::int64_t rows, std::int64_t columns, DType dtype, const StoredMatrix& x,
                            bool transposed) {
  using Type = dnnl::memory::data_type;
  return {{rows, columns},
          dtype == DType::bf16 ? Type::bf16 : Type::f32,
          transposed ? dnnl::memory::dims{1, x.stride} : dnnl::memory::dims{x.stride, 1}};
}

Primitive make(const Product& p) {
  Primitive r;
  r.a = describe(p.m, p.l, p.in, p.a, p.transpose_a);
  r.b = describe(p.l, p.n, p.in, p.b, p.transpose_b);
  r.c = describe(p.m, p.n, p.out, p.c, false);
  dnnl::primitive_attr attributes;
  if (p.alpha != 1.0f) attributes.set_output_scales(0, {p.alpha});
  if (p.beta != 0.0f) {
    dnnl::post_ops add;
    add.append_sum(p.beta);
    attributes.set_post_ops(add);
  }
  r.run = dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(r.a, r.b, r.c), attributes, cpu()));
  return r;
}

// Training has a few dozen shapes; a caller whose shapes never repeat must not grow memory without bound.
constexpr std::size_t kKept = 512;

Primitive& cached(const Product& p) {
  thread_local std::map<Key, Primitive> kept;
  const Key key = key_of(p);
  if (auto it = kept.find(key); it != kept.end()) return it->second;
  if (kept.size() >= kKept) kept.clear();
  return kept.emplace(key, make(p)).first->second;
}

}  // namespace

bool onednn_is_fast(DType dtype) {
  if (dtype == DType::f32) return true;
  // Without bf16 instructions oneDNN emulates them, at less than the speed of fp32.
  static const bool has_bf16 = (int(dnnl::get_effective_cpu_isa()) & int(dnnl::cpu_isa::avx512_core_bf16)) ==
                               int(dnnl::cpu_isa::avx512_core_bf16);
  return has_bf16;
}

void onednn_product(const Stream& stream, const Product& product) {
  const Product p = with_addend_in_place(stream, product);
  if (p.in == DType::f32 && p.out == DType::f32) {
    const dnnl_status_t status =
        dnnl_sgemm(p.transpose_a ? 'T' : 'N', p.transpose_b ? 'T' : 'N', p.m, p.n, p.l, p.alpha,
                   static_cast<const float*>(p.a.data), p.a.stride, static_cast<const float*>(p.b.data), p.b.stride,
                   p.beta, static_cast<float*>(p.c.data), p.c.stride);
    check(status == dnnl_success, "matmul: oneDNN's sgemm refused [{}, {}] x [{}, {}] with status {}", p.m, p.l, p.l,
          p.n, int(status));
    return;
  }
  try {
    Primitive& primitive = cached(p);
    dnnl::stream queue(cpu());
    primitive.run.execute(queue, {{DNNL_ARG_SRC, {primitive.a, cpu(), p.a.data}},
                                  {DNNL_ARG_WEIGHTS, {primitive.b, cpu(), p.b.data}},
                                  {DNNL_ARG_DST, {primitive.c, cpu(), p.c.data}}});
    queue.wait();
  } catch (const dnnl::error& e) {
    fail("matmul: oneDNN refused {} [{}, {}] x [{}, {}] -> {}: {}", name_of(p.in), p.m, p.l, p.l, p.n, name_of(p.out),
         e.what());
  }
}

}  // namespace mylos::kernels::detail
