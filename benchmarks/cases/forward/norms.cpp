// RMSNorm in its four forms. Bytes: kernels/rms_norm/rms_norm.hpp.
#include "benchmarks/cases/cases.hpp"
#include "kernels/rms_norm/rms_norm.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;
constexpr double kEps = 1e-5;
constexpr std::int64_t kRows = 8;  // that are checked

struct Norm {
  Pool& p;
  std::int64_t D;
  Tensor x, w, y, rstd;
  Norm(Pool& pool, const Preset& s, DType dtype)
      : p(pool),
        D(s.dim),
        x(p.take(dtype, {s.tokens, D})),
        w(p.take(dtype, {D})),
        y(p.take(dtype, {s.tokens, D})),
        rstd(p.filled(DType::f32, {s.tokens}, 1)) {}

  std::vector<double> rows(const Tensor& t) const { return values(p.stream(), t.slice(0, 0, kRows)); }
  // y of the first rows against x · rstd · w; rstd 0: from x.
  Check check(const std::vector<double>& x_rows, double rstd_of_all) const {
    const std::vector<double> weight = values(p.stream(), w), got = rows(y);
    Worst worst(0.1);
    for (std::int64_t r = 0; r < kRows; ++r) {
      const std::span<const double> row(x_rows.data() + r * D, std::size_t(D));
      double squares = 0;
      for (const double v : row) squares += v * v;
      const double scale = rstd_of_all > 0 ? rstd_of_all : 1 / std::sqrt(squares / double(D) + kEps);
      for (std::int64_t i = 0; i < D; ++i)
        worst.add(got[std::size_t(r * D + i)], row[std::size_t(i)] * scale * weight[std::size_t(i)]);
    }
    return {worst.error(), tolerance(x.dtype()), "double on the host, 8 rows"};
  }
};

Set forward(Pool& p, const Preset& s, DType dtype) {
  const Norm n(p, s, dtype);
  const Call call = [=] { k::rms_norm_forward(n.p.stream(), n.x, n.w, float(kEps), n.y, n.rstd); };
  return {call, [=] {
            call();
            return n.check(n.rows(n.x), 0);
          }};
}

Set residual(Pool& p, const Preset& s, DType dtype) {
  const Norm n(p, s, dtype);
  const Tensor r = p.take(dtype, {s.tokens, s.dim}), sum = p.take(dtype, {s.tokens, s.dim});
  const Call call = [=] { k::residual_rms_norm_forward(n.p.stream(), n.x, r, n.w, float(kEps), sum, n.y, n.rstd); };
  return {call, [=] {
            call();
            return n.check(n.rows(sum), 0);
          }};
}

Set apply(Pool& p, const Preset& s, DType dtype) {
  const Norm n(p, s, dtype);
  const Call call = [=] { k::rms_norm_apply(n.p.stream(), n.x, n.w, n.rstd, n.y); };
  return {call, [=] {
            call();
            return n.check(n.rows(n.x), 1);
          }};
}

// y stands for dy; the gradient that passes by is added in place.
Set backward(Pool& p, const Preset& s, DType dtype) {
  const Norm n(p, s, dtype);
  const std::int64_t D = s.dim;
  const Tensor dx = p.take(dtype, {s.tokens, D}), dw = p.take(dtype, {D}),
               work = p.take(DType::u8, {k::rms_norm_backward_workspace(s.tokens, D)});
  const Call call = [=] { k::rms_norm_backward(n.p.stream(), n.y, n.x, n.w, n.rstd, dx, false, work, dx, dw); };
  return {call, [=]() -> Check {
            const std::vector<double> before = n.rows(dx), dy = n.rows(n.y), x = n.rows(n.x),
                                      w = values(n.p.stream(), n.w);
            call();
            const std::vector<double> got = n.rows(dx);
            Worst worst(1);
            for (std::int64_t r = 0; r < kRows; ++r) {
              double mean = 0;
              for (std::int64_t i = 0; i < D; ++i)
                mean += dy[std::size_t(r * D + i)] * w[std::size_t(i)] * x[std::size_t(r * D + i)] / double(D);
              for (std::int64_t i = 0; i < D; ++i) {
                const auto at = std::size_t(r * D + i);
                worst.add(got[at], before[at] + dy[at] * w[std::size_t(i)] - x[at] * mean);
              }
            }
            return {worst.error(), tolerance(dtype), "double on the host, dx of 8 rows"};
          }};
}

}  // namespace

void add_norms(Cases& cases, const Preset& s, DType dtype) {
  const double matrix = double(s.tokens) * double(s.dim) * double(size_of(dtype));
  const auto add = [&](const char* op, double matrices, Set (*make)(Pool&, const Preset&, DType)) {
    cases.push_back({.name = op_name(s, op, dtype),
                     .component = "forward",
                     .dtype = std::string(name_of(dtype)),
                     .work = {.bytes = matrices * matrix, .source = "kernels/rms_norm/rms_norm.hpp"},
                     .make = [=](Pool& p) { return make(p, s, dtype); },
                     .quick = dtype == DType::bf16 && std::string(op) == "rms_norm_forward"});
  };
  add("rms_norm_forward", 2, forward);
  add("residual_rms_norm_forward", 4, residual);
  add("rms_norm_apply", 2, apply);
  add("rms_norm_backward", 4, backward);
}

}  // namespace mylos::bench
