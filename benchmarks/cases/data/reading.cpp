// A mapped token file read row by row on one core, beside a memcpy of the same bytes in the same order, be it the file's or a random one.
#include <cstring>
#include <numeric>
#include <random>

#include "benchmarks/cases/data/batches.hpp"
#include "data/mapped_file.hpp"

namespace mylos::bench {
namespace {

constexpr std::int64_t kTokens = 1 << 20;  // of a call

Set copying(Pool& p, const Place& place, std::int64_t S, bool shuffle) {
  struct State {
    std::shared_ptr<const Corpus> corpus;
    data::MappedFile file;
    std::vector<std::byte> batch;
    std::vector<std::int64_t> order = {};
    std::int64_t next = 0;
  };
  const auto s = std::make_shared<State>(
      State{corpus_of(corpus_tokens(place)), {}, std::vector<std::byte>(std::size_t(kRows * (S + 1) * 2))});
  s->file = data::MappedFile(s->corpus->file());
  p.elsewhere(s->file.size());
  const std::int64_t rows = (s->file.size() / 2 - 1) / S, bytes = (S + 1) * 2;
  const auto copy_row = [=](std::int64_t row, std::int64_t at) {
    std::memcpy(s->batch.data() + at * bytes, s->file.bytes().data() + row * S * 2, std::size_t(bytes));
  };
  for (std::int64_t row = 0; row < rows; ++row) copy_row(row, row % kRows);  // page faults are not the copy's
  s->order.resize(std::size_t(rows));
  std::iota(s->order.begin(), s->order.end(), 0);
  if (shuffle) std::shuffle(s->order.begin(), s->order.end(), std::mt19937_64(2));
  return {[=] {
            for (std::int64_t i = 0; i < kTokens / S; ++i, s->next = (s->next + 1) % rows)
              copy_row(s->order[std::size_t(s->next)], i % kRows);
          },
          [=]() -> Check {
            copy_row(1, 3);
            const bool same =
                std::memcmp(s->batch.data() + 3 * bytes, s->corpus->tokens().data() + S, std::size_t(bytes)) == 0;
            return {same ? 0.0 : 1.0, 0, "the tokens that were written, one row"};
          }};
}

Set iterating(Pool& p, const Place& place, std::int64_t S, bool shuffle) {
  struct State {
    Batches batches;
    data::HostBatch batch = {};
    std::int64_t step = 0;
  };
  const auto s = std::make_shared<State>(State{Batches(place, Cut::concat, S, shuffle)});
  p.elsewhere(corpus_tokens(place) * 2);
  return {[=] {
            for (std::int64_t i = 0; i < kTokens / S / kRows; ++i) s->batches.make(s->step++, s->batch);
          },
          [=]() -> Check {
            s->batches.make(0, s->batch);
            double wrong = 0;
            for (std::int64_t row = 0; row < kRows; ++row) {
              const std::int64_t sample = s->batches.data().at(row).sample;
              wrong += std::memcmp(s->batch.tokens(row), s->batches.corpus().tokens().data() + sample * S,
                                   std::size_t((S + 1) * 2)) == 0
                           ? 0
                           : 1;
            }
            return {wrong, 0, "the tokens that were written, rows of the first batch that differ"};
          }};
}

}  // namespace

void add_reading(Cases& cases, const Place& place) {
  for (const std::int64_t S : {512, 4096}) {
    const std::string suffix = S == 512 ? "" : fmt::format("/S{}", S);  // 512 as PyTorch's case
    for (const bool shuffle : {false, true}) {
      const std::string order = suffix + (shuffle ? "/shuffled" : "");
      Case copy = host_case("data/memcpy" + order, kTokens, 1, "bytes copied");
      copy.make = [=](Pool& p) { return copying(p, place, S, shuffle); };
      if (S == 512 && !shuffle) copy.limit = "host_memory";
      cases.push_back(copy);
      Case c = host_case("data/mapped_iteration" + order, kTokens, 1, "u16 tokens of the rows");
      c.make = [=](Pool& p) { return iterating(p, place, S, shuffle); };
      c.quick = !shuffle && S == 512;
      cases.push_back(c);
    }
  }
}

}  // namespace mylos::bench
