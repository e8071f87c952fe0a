// A mapped token file read row by row on one core, beside a memcpy of the same bytes in the same order.
#include <cstring>

#include "benchmarks/cases/data/batches.hpp"
#include "data/mapped_file.hpp"

namespace mylos::bench {
namespace {

constexpr std::int64_t kSequence = 512, kSteps = 128;  // of a call
constexpr std::int64_t kTokens = kSteps * kRows * kSequence;

Set copying(Pool& p, const Place& place) {
  struct State {
    std::shared_ptr<const Corpus> corpus;
    data::MappedFile file;
    std::vector<std::byte> batch = std::vector<std::byte>(std::size_t(kRows * (kSequence + 1) * 2));
    std::int64_t row = 0;
  };
  const auto s = std::make_shared<State>(State{corpus_of(corpus_tokens(place)), {}});
  s->file = data::MappedFile(s->corpus->file());
  p.elsewhere(s->file.size());
  const std::int64_t rows = (s->file.size() / 2 - 1) / kSequence, bytes = (kSequence + 1) * 2;
  const auto copy_row = [=](std::int64_t row, std::int64_t at) {
    std::memcpy(s->batch.data() + at * bytes, s->file.bytes().data() + row * kSequence * 2, std::size_t(bytes));
  };
  return {[=] {
            for (std::int64_t i = 0; i < kSteps * kRows; ++i, s->row = (s->row + 1) % rows) copy_row(s->row, i % kRows);
          },
          [=]() -> Check {
            copy_row(1, 3);
            const bool same = std::memcmp(s->batch.data() + 3 * bytes, s->corpus->tokens().data() + kSequence,
                                          std::size_t(bytes)) == 0;
            return {same ? 0.0 : 1.0, 0, "the tokens that were written, one row"};
          }};
}

Set iterating(Pool& p, const Place& place, bool shuffle) {
  struct State {
    Batches batches;
    data::HostBatch batch = {};
    std::int64_t step = 0;
  };
  const auto s = std::make_shared<State>(State{Batches(place, Cut::concat, kSequence, shuffle)});
  p.elsewhere(corpus_tokens(place) * 2);
  return {[=] {
            for (std::int64_t i = 0; i < kSteps; ++i) s->batches.make(s->step++, s->batch);
          },
          [=]() -> Check {
            s->batches.make(0, s->batch);
            double wrong = 0;
            for (std::int64_t row = 0; row < kRows; ++row) {
              const std::int64_t sample = s->batches.data().at(row).sample;
              wrong += std::memcmp(s->batch.tokens(row), s->batches.corpus().tokens().data() + sample * kSequence,
                                   std::size_t((kSequence + 1) * 2)) == 0
                           ? 0
                           : 1;
            }
            return {wrong, 0, "the tokens that were written, rows of the first batch that differ"};
          }};
}

}  // namespace

void add_reading(Cases& cases, const Place& place) {
  Case memcpy_case = host_case("data/memcpy", kTokens, 1, "bytes copied");
  memcpy_case.make = [=](Pool& p) { return copying(p, place); };
  memcpy_case.limit = "host_memory";
  cases.push_back(memcpy_case);
  for (const bool shuffle : {false, true}) {
    Case c = host_case(shuffle ? "data/mapped_iteration/shuffled" : "data/mapped_iteration", kTokens, 1,
                       "u16 tokens of the rows");
    c.make = [=](Pool& p) { return iterating(p, place, shuffle); };
    c.quick = !shuffle;
    cases.push_back(c);
  }
}

}  // namespace mylos::bench
