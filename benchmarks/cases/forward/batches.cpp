// What is done once a micro-batch outside the model: widening it, and summing the losses of rows. Micro-batches of far more rows than a step
// has, which takes a few microseconds; a document begins every 481 tokens.
#include "benchmarks/cases/cases.hpp"
#include "kernels/batch/batch.hpp"
#include "kernels/norm/norm.hpp"

namespace mylos::bench {
namespace {

constexpr std::int64_t kDocument = 481;

Set widen(Pool& p, std::int64_t rows, std::int64_t S, DType dtype) {
  const std::int64_t words = (S + 1 + 31) / 32;
  std::vector<std::int32_t> begins(std::size_t(rows * words), 0);
  for (std::int64_t t = 0; t < rows * S; t += kDocument)
    begins[std::size_t(t / S * words + t % S / 32)] |= std::int32_t(1u << (t % S % 32));
  const auto mask = [&](const std::vector<std::int32_t>& bits) {
    return p.integers(bits).view_as(DType::u32).reshape({rows, words});
  };
  const kernels::PackedBatch packed{p.take(dtype, {rows, S + 1}), mask(begins),
                                    mask(std::vector<std::int32_t>(begins.size(), 0))};
  const auto out = [&] { return p.take(DType::i32, {rows, S}); };
  const Tensor tokens = out(), labels = out(), positions = out(), starts = out();
  const Call call = [=, &p] { kernels::widen_batch(p.stream(), packed, tokens, labels, positions, starts); };
  return {call, [=, &p]() -> Check {
            call();
            const std::vector<double> got = values(p.stream(), positions.slice(0, 0, 1));
            Worst worst(1);
            for (std::size_t t = 0; t < got.size(); ++t) worst.add(got[t], double(std::int64_t(t) % kDocument));
            return {worst.error(), 0, "places in documents, the first row"};
          }};
}

Set sums(Pool& p, std::int64_t rows, std::int64_t S) {
  const Tensor loss = p.take(DType::f32, {rows, S}), result = p.take(DType::f64, {rows});
  const Call call = [=, &p] { kernels::sum_rows(p.stream(), loss, result); };
  return {call, [=, &p]() -> Check {
            call();
            double want = 0;
            for (const double x : values(p.stream(), loss.slice(0, rows - 1, rows))) want += x;
            Worst worst(std::sqrt(double(S)));
            worst.add(values(p.stream(), result.slice(0, rows - 1, rows))[0], want);
            return {worst.error(), 1e-6, "double on the host, the last row"};
          }};
}

}  // namespace

void add_batches(Cases& cases, const Place& place) {
  const std::int64_t rows = place.gpu ? 4096 : 16, S = place.gpu ? 4096 : 512, words = (S + 1 + 31) / 32;
  for (const DType dtype : {DType::u16, DType::u32}) {
    const double bytes =
        double(rows * (S + 1) * size_of(dtype)) + 2.0 * double(rows * words) * 4 + 16.0 * double(rows * S);
    cases.push_back({.name = "ops/batch/widen/" + std::string(name_of(dtype)),
                     .component = "forward",
                     .dtype = std::string(name_of(dtype)),
                     .work = {.bytes = bytes, .source = "kernels/batch/batch.hpp"},
                     .make = [=](Pool& p) { return widen(p, rows, S, dtype); }});
  }
  cases.push_back({.name = "ops/batch/sum_rows",
                   .component = "forward",
                   .dtype = "f32",
                   .work = {.bytes = 4.0 * double(rows * S), .source = "kernels/norm/norm.hpp"},
                   .make = [=](Pool& p) { return sums(p, rows, S); }});
}

}  // namespace mylos::bench
