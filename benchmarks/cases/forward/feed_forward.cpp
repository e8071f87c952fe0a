// SwiGLU with the product before it, forward and backward: as two ops, and by one kernel where there is one. FLOPs: kernels/linear_swiglu/linear_swiglu.hpp.
#include "benchmarks/cases/cases.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "kernels/matmul/matmul.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;
using k::LinearSwiglu;

constexpr std::int64_t kCorner = 8;  // rows and columns that are checked

std::vector<double> corner(Pool& p, const Tensor& t, std::int64_t row, std::int64_t column,
                           std::int64_t columns = kCorner) {
  const std::vector<double> rows = values(p.stream(), t.slice(0, row, row + kCorner));
  std::vector<double> kept;
  for (std::int64_t r = 0; r < kCorner; ++r)
    for (std::int64_t c = 0; c < columns; ++c) kept.push_back(rows[std::size_t(r * t.extent(1) + column + c)]);
  return kept;
}

// A corner of each projection, and what becomes of them as they were stored.
Check check_corner(Pool& p, const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out) {
  constexpr std::int64_t n = kCorner;
  const std::int64_t D = x.extent(1), F = out.extent(1);
  const std::vector<double> in = corner(p, x, 0, 0, D), gate_rows = corner(p, w, 0, 0, D),
                            up_rows = corner(p, w, F, 0, D), gates = corner(p, gate_up, 0, 0),
                            ups = corner(p, gate_up, 0, F), got = corner(p, out, 0, 0);
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

// The down projection's gradient, by the portable product, and SwiGLU's: a corner of each half.
Check check_gradient(Pool& p, const Tensor& dy, const Tensor& w, const Tensor& gate_up, const Tensor& work,
                     const Tensor& dout_corner, const Tensor& gradient) {
  const std::int64_t F = w.extent(1);
  k::matmul(p.stream(), dy.slice(0, 0, kCorner), w.slice(1, 0, kCorner), {.provider = k::MatmulProvider::reference},
            work, dout_corner);
  const std::vector<double> dout = values(p.stream(), dout_corner), gates = corner(p, gate_up, 0, 0),
                            ups = corner(p, gate_up, 0, F), of_gate = corner(p, gradient, 0, 0),
                            of_up = corner(p, gradient, 0, F);
  Worst worst(std::sqrt(double(dy.extent(1))));
  for (std::size_t i = 0; i < dout.size(); ++i) {
    const double s = 1 / (1 + std::exp(-gates[i]));
    worst.add(of_gate[i], dout[i] * ups[i] * (s + gates[i] * s * (1 - s)));
    worst.add(of_up[i], dout[i] * gates[i] * s);
  }
  return {worst.error(), dy.dtype() == DType::bf16 ? 1.6e-2 : 4e-3, "the portable product and double, 8 x 8"};
}

Set gradient_pass(Pool& p, const Preset& s, DType dtype, LinearSwiglu how) {
  const Tensor dy = p.take(dtype, {s.tokens, s.dim}), w = p.take(dtype, {s.dim, s.ffn}),
               gate_up = p.take(dtype, {s.tokens, 2 * s.ffn}), gradient = p.take(dtype, {s.tokens, 2 * s.ffn}),
               dout = how == LinearSwiglu::apart ? p.take(dtype, {s.tokens, s.ffn}) : Tensor(),
               work = p.take(DType::u8, {k::matmul_workspace()}), dout_corner = p.take(DType::f32, {kCorner, kCorner});
  const Call call = [=, &p] { k::linear_swiglu_backward(p.stream(), dy, w, gate_up, work, dout, gradient, how); };
  return {call, [=, &p] {
            call();
            return check_gradient(p, dy, w, gate_up, work, dout_corner, gradient);
          }};
}

}  // namespace

void add_feed_forward(Cases& cases, const Preset& s, DType dtype) {
  const double flops = 2.0 * double(s.tokens) * double(s.dim) * double(s.ffn);
  const bool fuses = dtype == DType::bf16 && k::has_provider(k::MatmulProvider::tiles, dtype);
  const auto add = [&](const char* op, LinearSwiglu how, double work, auto make) {
    if (how == LinearSwiglu::fused && !fuses) return;
    cases.push_back({.name = op_name(s, op, dtype) + (how == LinearSwiglu::fused ? "/fused" : ""),
                     .component = "forward",
                     .dtype = std::string(name_of(dtype)),
                     .work = {.flops = work, .source = "kernels/linear_swiglu/linear_swiglu.hpp"},
                     .make = [=](Pool& p) { return make(p, s, dtype, how); }});
  };
  for (const LinearSwiglu how : {LinearSwiglu::apart, LinearSwiglu::fused}) {
    add("linear_swiglu_forward", how, 2 * flops, pass);
    add("linear_swiglu_backward", how, flops, gradient_pass);
  }
}

}  // namespace mylos::bench
