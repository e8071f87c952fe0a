// The pass over the logits of a chunk, alone and with their gradient. Bytes: logits read, and written with a gradient.
#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/words.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels::detail;

Set pass(Pool& p, const Preset& s, DType dtype, bool with_gradient) {
  const std::int64_t V = s.vocabulary, n = s.chunk;
  const std::vector<std::int32_t> drawn = draw(n, V, Words::zipf);
  const Tensor logits = p.take(dtype, {n, V}), loss = p.take(DType::f32, {n}), labels = p.integers(drawn),
               claims = p.filled(DType::i32, {1}, 0), one = p.filled(DType::f32, {1}, 1);
  const k::LossRows rows{
      logits.data(), dtype, n, V, V, labels.as<std::int32_t>(), loss.as<float>(), claims.as<std::int32_t>()};
  const Call call = [=, &p] {
    with_gradient ? k::softmax_loss_gradient(p.stream(), rows, one.as<float>()) : k::softmax_loss(p.stream(), rows);
  };
  return {call, [=, &p]() -> Check {
            const Tensor row = logits.slice(0, n - 1, n);
            const std::vector<double> z = values(p.stream(), row);
            call();
            const auto label = std::size_t(drawn.back());
            double sum = 0;
            for (const double x : z) sum += std::exp(x);
            Worst worst(1e-3);
            worst.add(values(p.stream(), loss.slice(0, n - 1, n))[0], std::log(sum) - z[label]);
            if (with_gradient) {
              const std::vector<double> got = values(p.stream(), row);
              Worst of_gradient(1e-7);
              for (std::size_t i = 0; i < z.size(); ++i)
                of_gradient.add(got[i], std::exp(z[i]) / sum - (i == label ? 1.0 : 0.0));
              return {std::max(worst.error(), of_gradient.error()), dtype == DType::bf16 ? 8e-3 : 1e-4,
                      "double on the host, loss and gradient of the last row"};
            }
            return {worst.error(), 1e-5, "double on the host, loss of the last row"};
          }};
}

}  // namespace

void add_loss(Cases& cases, const Preset& s, DType dtype) {
  const double logits = double(s.chunk) * double(s.vocabulary) * double(size_of(dtype));
  for (const bool with_gradient : {false, true})
    cases.push_back(
        {.name = op_name(s, with_gradient ? "softmax_loss_gradient" : "softmax_loss", dtype),
         .component = "forward",
         .dtype = std::string(name_of(dtype)),
         .work = {.bytes = (with_gradient ? 2 : 1) * logits, .source = "kernels/linear_cross_entropy/softmax_loss.hpp"},
         .make = [=](Pool& p) { return pass(p, s, dtype, with_gradient); }});
}

}  // namespace mylos::bench
