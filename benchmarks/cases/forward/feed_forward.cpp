// Gate and up projections with SwiGLU: as two ops, and by one kernel where there is one. FLOPs: kernels/linear_swiglu/linear_swiglu.hpp.
#include "benchmarks/cases/cases.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "kernels/matmul/matmul.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;
using k::LinearSwiglu;

// Eight rows and columns of each projection, and what becomes of them as they were stored.
Check check_corner(Pool& p, const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out) {
  constexpr std::int64_t n = 8;
  const std::int64_t D = x.extent(1), F = out.extent(1);
  const auto corner = [&](const Tensor& t, std::int64_t row, std::int64_t column, std::int64_t columns) {
    const std::vector<double> rows = values(p.stream(), t.slice(0, row, row + n));
    std::vector<double> kept;
    for (std::int64_t r = 0; r < n; ++r)
      for (std::int64_t c = 0; c < columns; ++c) kept.push_back(rows[std::size_t(r * t.extent(1) + column + c)]);
    return kept;
  };
  const std::vector<double> in = corner(x, 0, 0, D), gate_rows = corner(w, 0, 0, D), up_rows = corner(w, F, 0, D),
                            gates = corner(gate_up, 0, 0, n), ups = corner(gate_up, 0, F, n),
                            got = corner(out, 0, 0, n);
  Worst worst(std::sqrt(double(D)));
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < n; ++c) {
      const auto at = std::size_t(r * n + c);
      double gate = 0, up = 0;
      for (std::int64_t d = 0; d < D; ++d) {
        gate += in[std::size_t(r * D + d)] * gate_rows[std::size_t(c * D + d)];
        up += in[std::size_t(r * D + d)] * up_rows[std::size_t(c * D + d)];
      }
      worst.add(gates[at], gate);
      worst.add(ups[at], up);
      worst.add(got[at], gates[at] / (1 + std::exp(-gates[at])) * ups[at]);
    }
  return {worst.error(), x.dtype() == DType::bf16 ? 8e-3 : 2e-3, "double on the host, 8 x 8"};
}

Set pass(Pool& p, const Preset& s, DType dtype, LinearSwiglu how) {
  const Tensor x = p.take(dtype, {s.tokens, s.dim}), w = p.take(dtype, {2 * s.ffn, s.dim}),
               gate_up = p.take(dtype, {s.tokens, 2 * s.ffn}), out = p.take(dtype, {s.tokens, s.ffn}),
               work = p.take(DType::u8, {k::matmul_workspace()});
  const Call call = [=, &p] { k::linear_swiglu_forward(p.stream(), x, w, work, gate_up, out, how); };
  return {call, [=, &p] {
            call();
            return check_corner(p, x, w, gate_up, out);
          }};
}

}  // namespace

void add_feed_forward(Cases& cases, const Preset& s, DType dtype) {
  for (const auto& [how, suffix] : {std::pair{LinearSwiglu::apart, ""}, {LinearSwiglu::fused, "/fused"}}) {
    if (how == LinearSwiglu::fused && !(dtype == DType::bf16 && k::has_provider(k::MatmulProvider::tiles, dtype)))
      continue;
    cases.push_back({.name = op_name(s, "linear_swiglu_forward", dtype) + suffix,
                     .component = "forward",
                     .dtype = std::string(name_of(dtype)),
                     .work = {.flops = 4.0 * double(s.tokens) * double(s.dim) * double(s.ffn),
                              .source = "kernels/linear_swiglu/linear_swiglu.hpp"},
                     .make = [=, h = how](Pool& p) { return pass(p, s, dtype, h); }});
  }
}

}  // namespace mylos::bench
