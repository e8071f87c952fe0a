// What the harness is proved by, and what the others are held against: nothing, waits of known length, copies, and large products.
#include "benchmarks/cases/cases.hpp"
#include "benchmarks/harness/spin.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/matmul/matmul.hpp"

namespace mylos::bench {
namespace {

Case copy_case(const std::string& name, std::int64_t bytes, bool by_driver) {
  const std::int64_t n = bytes / 4;  // bf16, read and written
  return {.name = name,
          .component = "harness",
          .dtype = "bf16",
          .work = {.bytes = double(4 * n), .source = "read and written once"},
          .make = [=](Pool& p) -> Set {
            const Tensor from = p.take(DType::bf16, {n}), to = p.take(DType::bf16, {n});
            const Call call = [=, &p] {
              by_driver ? copy(p.stream(), from, to) : kernels::convert(p.stream(), from, to);
            };
            return {call, [=, &p]() -> Check {
                      call();
                      const std::int64_t tail = std::min<std::int64_t>(n, 4096);
                      const std::vector<double> want = values(p.stream(), from.slice(0, n - tail, n)),
                                                got = values(p.stream(), to.slice(0, n - tail, n));
                      Worst worst(1);
                      for (std::size_t i = 0; i < got.size(); ++i) worst.add(got[i], want[i]);
                      return {worst.error(), 0, "the source, last 4096 elements"};
                    }};
          }};
}

// C = A·Bᵀ, n x n x n.
Case product_case(DType dtype, std::int64_t n) {
  return {.name = "harness/product/" + std::string(name_of(dtype)),
          .component = "harness",
          .dtype = std::string(name_of(dtype)),
          .work = {.flops = 2.0 * double(n) * double(n) * double(n), .source = "kernels/matmul/matmul.hpp"},
          .make = [=](Pool& p) -> Set {
            const Tensor a = p.take(dtype, {n, n}), b = p.take(dtype, {n, n}), c = p.take(dtype, {n, n}),
                         corner = p.take(DType::f32, {8, 8}), work = p.take(DType::u8, {kernels::matmul_workspace()});
            const Call call = [=, &p] { kernels::linear_forward(p.stream(), a, b, work, c); };
            return {call, [=, &p]() -> Check {
                      call();
                      kernels::matmul(p.stream(), a.slice(0, 0, 8), b.slice(0, 0, 8),
                                      {.b = kernels::Transpose::yes, .provider = kernels::MatmulProvider::reference},
                                      work, corner);
                      const std::vector<double> want = values(p.stream(), corner),
                                                got = values(p.stream(), c.slice(0, 0, 8));
                      Worst worst(std::sqrt(double(n)));
                      for (std::int64_t i = 0; i < 64; ++i)
                        worst.add(got[std::size_t(i / 8 * n + i % 8)], want[std::size_t(i)]);
                      return {worst.error(), dtype == DType::bf16 ? 8e-3 : 2e-3, "the portable product, 8 x 8"};
                    }};
          }};
}

Case spin_case(long long microseconds) {
  return {.name = "harness/spin/" + std::to_string(microseconds) + "us",
          .component = "harness",
          .make = [=](Pool& p) -> Set { return {[=, &p] { spin(p.stream(), 1000 * microseconds); }}; },
          .no_check = "its time is what is checked, by tests",
          .warm = true,
          .quick = microseconds == 200};
}

}  // namespace

std::string copy_name(double bytes) {
  return fmt::format("harness/copy/bytes:{}", std::max<std::int64_t>(4, std::int64_t(bytes) / 4 * 4));
}
Case copy_of(double bytes) {
  return copy_case(copy_name(bytes), std::max<std::int64_t>(4, std::int64_t(bytes)), false);
}

void add_proofs(Cases& cases, const Place& place) {
  cases.push_back({.name = "harness/null",
                   .component = "harness",
                   .make = [](Pool& p) -> Set { return {[&p] { null_kernel(p.stream()); }}; },
                   .no_check = "it computes nothing",
                   .warm = true,
                   .quick = true});
  cases.push_back(spin_case(200));
  cases.push_back(spin_case(206));
  const std::int64_t most = place.gpu ? std::int64_t(2) << 30 : std::int64_t(128) << 20;
  cases.push_back(copy_case("harness/copy/packs", most, false));
  cases.back().limit = "memory";
  cases.push_back(copy_case("harness/copy/driver", most, true));
  for (std::int64_t bytes = std::int64_t(1) << 20; bytes < most; bytes *= 8)
    cases.push_back(copy_case("harness/copy/" + std::to_string(bytes >> 20) + "MiB", bytes, false));
  const std::int64_t n = place.gpu ? 8192 : 1024;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    cases.push_back(product_case(dtype, n));
    cases.back().limit = cases.back().dtype;
  }
}

}  // namespace mylos::bench
