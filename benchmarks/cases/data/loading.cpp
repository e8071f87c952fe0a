// The loader: batches in a random order, made ahead by one thread or two (or, with none, when they are asked for), taken by a reader that does
// nothing else. Rows of 2,048 tokens; on a CPU also shorter and longer ones.
#include "benchmarks/cases/data/batches.hpp"
#include "data/loader.hpp"

namespace mylos::bench {
namespace {

constexpr std::int64_t kTokens = 1 << 20, kPrefetch = 8;  // of a call; batches ahead

Set loading(Pool& p, const Place& place, Cut cut, std::int64_t S, int threads) {
  struct State {
    Batches batches;
    data::HostBatch batch = {};
    std::unique_ptr<data::Loader> loader = {};
  };
  const auto s = std::make_shared<State>(State{Batches(place, cut, S, true)});
  s->loader = std::make_unique<data::Loader>(
      [b = &s->batches](std::int64_t step, std::int64_t, data::HostBatch& out) { b->make(step, out); }, 1, 0,
      threads > 0 ? kPrefetch : 0, std::max(threads, 1));
  p.elsewhere(corpus_tokens(place) * 2);
  return {[=] {
            for (std::int64_t i = 0; i < kTokens / S / kRows; ++i) s->loader->next(s->batch);
          },
          [=]() -> Check {
            data::HostBatch first;
            s->batches.make(0, first);
            s->loader->next(s->batch);
            const auto n = std::size_t(S * 2);
            double wrong = 0;
            for (std::int64_t row = 0; row < kRows; ++row)
              wrong += std::equal(first.tokens(row), first.tokens(row) + n, s->batch.tokens(row)) ? 0 : 1;
            return {wrong, 0, "the first batch made without a loader, rows that differ"};
          }};
}

}  // namespace

void add_loaders(Cases& cases, const Place& place) {
  for (const std::int64_t S : place.gpu ? std::vector<std::int64_t>{2048} : std::vector<std::int64_t>{2048, 512, 8192})
    for (const Cut cut : {Cut::concat, Cut::documents, Cut::best_fit, Cut::mixture})
      for (const int threads : {0, 1, 2}) {
        Case c = host_case(fmt::format("data/loader/{}/threads{}{}", kCutNames[int(cut)], threads,
                                       S == 2048 ? "" : fmt::format("/S{}", S)),
                           kTokens, std::max(threads, 1), "u16 tokens of the rows");
        c.make = [=](Pool& p) { return loading(p, place, cut, S, threads); };
        cases.push_back(c);
      }
}

}  // namespace mylos::bench
