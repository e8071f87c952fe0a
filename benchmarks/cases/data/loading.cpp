// The loader: batches in a random order, made ahead by one thread or two, taken by a reader that does nothing else.
#include "benchmarks/cases/data/batches.hpp"
#include "data/loader.hpp"

namespace mylos::bench {
namespace {

constexpr std::int64_t kSequence = 2048, kSteps = 32, kPrefetch = 8;

Set loading(Pool& p, const Place& place, Cut cut, int threads) {
  struct State {
    Batches batches;
    data::HostBatch batch = {};
    std::unique_ptr<data::Loader> loader = {};
  };
  const auto s = std::make_shared<State>(State{Batches(place, cut, kSequence, true)});
  s->loader = std::make_unique<data::Loader>(
      [b = &s->batches](std::int64_t step, std::int64_t, data::HostBatch& out) { b->make(step, out); }, 1, 0, kPrefetch,
      threads);
  p.elsewhere(corpus_tokens(place) * 2);
  return {[=] {
            for (std::int64_t i = 0; i < kSteps; ++i) s->loader->next(s->batch);
          },
          [=]() -> Check {
            data::HostBatch first;
            s->batches.make(0, first);
            s->loader->next(s->batch);
            const auto n = std::size_t(kSequence * 2);
            double wrong = 0;
            for (std::int64_t row = 0; row < kRows; ++row)
              wrong += std::equal(first.tokens(row), first.tokens(row) + n, s->batch.tokens(row)) ? 0 : 1;
            return {wrong, 0, "the first batch made without a loader, rows that differ"};
          }};
}

}  // namespace

void add_loaders(Cases& cases, const Place& place) {
  for (const Cut cut : {Cut::concat, Cut::documents, Cut::best_fit, Cut::mixture})
    for (const int threads : {1, 2}) {
      Case c = host_case(fmt::format("data/loader/{}/threads{}", kCutNames[int(cut)], threads),
                         kSteps * kRows * kSequence, threads, "u16 tokens of the rows");
      c.make = [=](Pool& p) { return loading(p, place, cut, threads); };
      cases.push_back(c);
    }
}

}  // namespace mylos::bench
