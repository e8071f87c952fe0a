// SwiGLU and the rotary embedding: the passes over memory of a block beside its norms. Bytes: their headers in kernels/.
#include "benchmarks/cases/cases.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;
constexpr std::int64_t kRows = 8;  // that are checked
constexpr double kTheta = 5e5;

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Set swiglu(Pool& p, const Preset& s, DType dtype) {
  const std::int64_t F = s.ffn;
  const Tensor gate_up = p.take(dtype, {s.tokens, 2 * F}), out = p.take(dtype, {s.tokens, F});
  const Call call = [=, &p] { k::swiglu_forward(p.stream(), gate_up, out); };
  return {call, [=, &p]() -> Check {
            call();
            const std::vector<double> in = values(p.stream(), gate_up.slice(0, 0, kRows)),
                                      got = values(p.stream(), out.slice(0, 0, kRows));
            Worst worst(0.1);
            for (std::int64_t i = 0; i < kRows * F; ++i) {
              const double gate = in[std::size_t(i / F * 2 * F + i % F)],
                           up = in[std::size_t(i / F * 2 * F + F + i % F)];
              worst.add(got[std::size_t(i)], gate * sigmoid(gate) * up);
            }
            return {worst.error(), tolerance(dtype), "double on the host, 8 rows"};
          }};
}

Set swiglu_gradient(Pool& p, const Preset& s, DType dtype) {
  const std::int64_t F = s.ffn;
  const Tensor gate_up = p.take(dtype, {s.tokens, 2 * F}), dout = p.take(dtype, {s.tokens, F}),
               gradient = p.take(dtype, {s.tokens, 2 * F});
  const Call call = [=, &p] { k::swiglu_backward(p.stream(), gate_up, dout, gradient); };
  return {call, [=, &p]() -> Check {
            call();
            const std::vector<double> in = values(p.stream(), gate_up.slice(0, 0, kRows)),
                                      d = values(p.stream(), dout.slice(0, 0, kRows)),
                                      got = values(p.stream(), gradient.slice(0, 0, kRows));
            Worst worst(0.1);
            for (std::int64_t i = 0; i < kRows * F; ++i) {
              const auto at = std::size_t(i / F * 2 * F + i % F), second = at + std::size_t(F);
              const double gate = in[at], up = in[second], sg = sigmoid(gate), dy = d[std::size_t(i)];
              worst.add(got[at], dy * up * (sg + gate * sg * (1 - sg)));
              worst.add(got[second], dy * gate * sg);
            }
            return {worst.error(), tolerance(dtype), "double on the host, 8 rows"};
          }};
}

Set rotation(Pool& p, const Preset& s, DType dtype) {
  const std::int64_t T = s.tokens, h = s.head_size, rotated = s.heads + s.kv_heads, all = rotated + s.kv_heads;
  const Tensor qkv = p.take(dtype, {T, all, h}), angles = p.take(DType::f32, {T, h});
  std::vector<std::int32_t> places;
  for (std::int64_t t = 0; t < T; ++t) places.push_back(std::int32_t(t % (T / 2)));
  const Tensor positions = p.integers(places);
  k::rope_table(p.stream(), kTheta, angles);
  const Call call = [=, &p] {
    k::rope(p.stream(), k::RopeDirection::forward, angles, positions, qkv.slice(1, 0, rotated));
  };
  return {call, [=, &p]() -> Check {
            const Tensor token = qkv.slice(0, T - 1, T);
            const std::vector<double> x = values(p.stream(), token);
            call();
            const std::vector<double> y = values(p.stream(), token);
            Worst worst(1);
            for (std::int64_t head = 0; head < rotated; ++head)
              for (std::int64_t i = 0; i < h / 2; ++i) {
                const auto a = std::size_t(head * h + i), b = std::size_t(head * h + h / 2 + i);
                const double angle = double(T / 2 - 1) * std::pow(kTheta, -2.0 * double(i) / double(h));
                worst.add(y[a], x[a] * std::cos(angle) - x[b] * std::sin(angle));
                worst.add(y[b], x[b] * std::cos(angle) + x[a] * std::sin(angle));
              }
            return {worst.error(), tolerance(dtype), "double on the host, the last token"};
          }};
}

}  // namespace

void add_block_passes(Cases& cases, const Preset& s, DType dtype) {
  const double size = double(size_of(dtype)), T = double(s.tokens);
  const auto add = [&](const char* op, double values_per_token, const char* source,
                       Set (*make)(Pool&, const Preset&, DType)) {
    cases.push_back({.name = op_name(s, op, dtype),
                     .component = "forward",
                     .dtype = std::string(name_of(dtype)),
                     .work = {.bytes = T * values_per_token * size, .source = source},
                     .make = [=](Pool& p) { return make(p, s, dtype); },
                     .quick = dtype == DType::bf16 && std::string(op) == "swiglu_forward"});
  };
  add("swiglu_forward", 3.0 * double(s.ffn), "kernels/swiglu/swiglu.hpp", swiglu);
  add("swiglu_backward", 5.0 * double(s.ffn), "kernels/swiglu/swiglu.hpp", swiglu_gradient);
  add("rope", 2.0 * double((s.heads + s.kv_heads) * s.head_size), "kernels/rope/rope.hpp", rotation);
}

}  // namespace mylos::bench
