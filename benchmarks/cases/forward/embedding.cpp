// The token embedding, its gradient and the grouping of tokens before that, with words as often as in a text and with all as often. Bytes: kernels/embedding/embedding.hpp; rows
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
               groups = p.take(DType::u8, {k::embedding_group_bytes(s.tokens, s.vocabulary)}),
               work = p.take(DType::u8, {k::embedding_backward_workspace(s.tokens, s.dim)});
  k::embedding_group(p.stream(), p.integers(drawn), s.vocabulary, groups);
  const Call call = [=, &p] { k::embedding_backward(p.stream(), groups, dout, work, sums); };
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

Set grouping(Pool& p, const Preset& s, const std::vector<std::int32_t>& drawn) {
  const Tensor groups = p.take(DType::u8, {k::embedding_group_bytes(s.tokens, s.vocabulary)}),
               tokens = p.integers(drawn), counts = p.filled(DType::f32, {s.vocabulary, 1}, 0.0),
               ones = p.filled(DType::f32, {s.tokens, 1}, 1.0),
               work = p.take(DType::u8, {k::embedding_backward_workspace(s.tokens, 1)});
  const Call call = [=, &p] { k::embedding_group(p.stream(), tokens, s.vocabulary, groups); };
  return {call, [=, &p]() -> Check {
            std::vector<double> want(std::size_t(s.vocabulary), 0.0);
            for (const std::int32_t v : drawn) ++want[std::size_t(v)];
            call();
            k::embedding_backward(p.stream(), groups, ones, work, counts);
            const std::vector<double> got = values(p.stream(), counts);
            Worst worst(1);
            for (std::size_t v = 0; v < got.size(); ++v) worst.add(got[v], want[v]);
            return {worst.error(), 0, "how often each word occurs, by the gradient of ones"};
          }};
}

}  // namespace

void add_embedding(Cases& cases, const Preset& s, DType dtype) {
  const double row = double(s.dim) * double(size_of(dtype));
  for (const Words words : {Words::zipf, Words::uniform}) {
    const std::vector<std::int32_t> drawn = draw(s.tokens, s.vocabulary, words);
    const auto touched = double(std::set<std::int32_t>(drawn.begin(), drawn.end()).size());
    const auto add = [&](const char* op, DType of, double bytes, const char* source, auto make) {
      cases.push_back({.name = op_name(s, std::string(op) + (words == Words::zipf ? "/zipf" : "/uniform"), of),
                       .component = "forward",
                       .dtype = std::string(name_of(of)),
                       .work = {.bytes = bytes, .source = source},
                       .make = make});
    };
    const char* const rows = "kernels/embedding/embedding.hpp, each row once";
    add("embedding_forward", dtype, (double(s.tokens) + touched) * row, rows,
        [=](Pool& p) { return lookup(p, s, dtype, drawn); });
    add("embedding_backward", dtype, (double(s.tokens) + 2 * touched) * row, rows,
        [=](Pool& p) { return gradient(p, s, dtype, drawn); });
    if (dtype == DType::bf16)  // has nothing to do with the table's dtype
      add("embedding_group", DType::i32, 8.0 * double(s.tokens) + 16.0 * touched, "kernels/embedding/embedding.hpp",
          [=](Pool& p) { return grouping(p, s, drawn); });
  }
}

}  // namespace mylos::bench
