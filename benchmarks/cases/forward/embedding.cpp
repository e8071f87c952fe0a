// The token embedding and its gradient, with words as often as in a text and with all as often. Bytes: kernels/embedding/embedding.hpp; rows
// that several tokens touch count once.
#include <map>
#include <set>

#include "benchmarks/cases/cases.hpp"
#include "benchmarks/cases/words.hpp"
#include "kernels/embedding/embedding.hpp"

namespace mylos::bench {
namespace {

namespace k = kernels;

Set lookup(Pool& p, const Preset& s, DType dtype, const std::vector<std::int32_t>& drawn) {
  const Tensor table = p.take(dtype, {s.vocabulary, s.dim}), out = p.take(dtype, {s.tokens, s.dim}),
               tokens = p.integers(drawn);
  const Call call = [=, &p] { k::embedding_forward(p.stream(), table, tokens, out); };
  return {call, [=, &p]() -> Check {
            call();
            Worst worst(1);
            for (std::int64_t t = 0; t < s.tokens; t += s.tokens / 8) {
              const std::int64_t v = drawn[std::size_t(t)];
              const std::vector<double> got = values(p.stream(), out.slice(0, t, t + 1)),
                                        want = values(p.stream(), table.slice(0, v, v + 1));
              for (std::size_t i = 0; i < got.size(); ++i) worst.add(got[i], want[i]);
            }
            return {worst.error(), 0, "rows of the table, 8 tokens"};
          }};
}

// A token that some others of the batch share, so that its row is a sum.
std::int32_t shared_token(const std::vector<std::int32_t>& drawn) {
  std::map<std::int32_t, int> counts;
  for (const std::int32_t v : drawn) ++counts[v];
  for (const auto& [v, n] : counts)
    if (n >= 2 && n <= 8) return v;
  return drawn[0];
}

Set gradient(Pool& p, const Preset& s, DType dtype, const std::vector<std::int32_t>& drawn) {
  const Tensor sums = p.take(dtype, {s.vocabulary, s.dim}), dout = p.take(dtype, {s.tokens, s.dim}),
               tokens = p.integers(drawn),
               work = p.take(DType::u8, {k::embedding_backward_workspace(s.tokens, s.vocabulary, s.dim)});
  const Call call = [=, &p] { k::embedding_backward(p.stream(), tokens, dout, work, sums); };
  return {call, [=, &p]() -> Check {
            const std::int64_t v = shared_token(drawn);
            std::vector<double> want = values(p.stream(), sums.slice(0, v, v + 1));
            for (std::int64_t t = 0; t < s.tokens; ++t) {
              if (drawn[std::size_t(t)] != v) continue;
              const std::vector<double> row = values(p.stream(), dout.slice(0, t, t + 1));
              for (std::size_t i = 0; i < row.size(); ++i) want[i] += row[i];
            }
            call();
            const std::vector<double> got = values(p.stream(), sums.slice(0, v, v + 1));
            Worst worst(1);
            for (std::size_t i = 0; i < got.size(); ++i) worst.add(got[i], want[i]);
            return {worst.error(), tolerance(dtype), "double on the host, a row of the table"};
          }};
}

}  // namespace

void add_embedding(Cases& cases, const Preset& s, DType dtype) {
  const double row = double(s.dim) * double(size_of(dtype));
  for (const Words words : {Words::zipf, Words::uniform}) {
    const std::vector<std::int32_t> drawn = draw(s.tokens, s.vocabulary, words);
    const auto touched = double(std::set<std::int32_t>(drawn.begin(), drawn.end()).size());
    const auto add = [&](const char* op, double rows, auto make) {
      cases.push_back({.name = op_name(s, std::string(op) + (words == Words::zipf ? "/zipf" : "/uniform"), dtype),
                       .component = "forward",
                       .dtype = std::string(name_of(dtype)),
                       .work = {.bytes = rows * row, .source = "kernels/embedding/embedding.hpp, each row once"},
                       .make = [=](Pool& p) { return make(p, s, dtype, drawn); }});
    };
    add("embedding_forward", double(s.tokens) + touched, lookup);
    add("embedding_backward", double(s.tokens) + 2 * touched, gradient);
  }
}

}  // namespace mylos::bench
