#include "benchmarks/cases/data/batches.hpp"

namespace mylos::bench {

std::int64_t corpus_tokens(const Place& place) { return std::int64_t(place.quick ? 4 : 256) << 20; }

Batches::Batches(const Place& place, Cut cut, std::int64_t sequence, bool shuffle)
    : corpus_(corpus_of(corpus_tokens(place))) {
  data::DataConfig c;
  c.dtype = data::StatedDType::u16;
  c.document_token = Corpus::kEnd;
  c.documents = cut != Cut::concat;
  c.packing = cut == Cut::best_fit || cut == Cut::mixture ? data::Packing::best_fit : data::Packing::concat;
  c.shuffle = shuffle;
  if (cut == Cut::mixture) {
    for (const auto& [name, weight] : {std::pair{"a", 5.0}, {"b", 2.0}, {"c", 1.0}})
      c.sources.emplace_back(name, data::SourceConfig{.files = {corpus_->file()}, .weight = weight});
  } else {
    c.train = {corpus_->file()};
  }
  data_ = std::make_unique<data::TrainingData>(c, Corpus::kVocab, sequence, kRows);
  // Every page is in the page table before anything is timed, as it is for the memcpy.
  data::HostBatch batch;
  for (std::int64_t step = 0; step * kRows < data_->samples(); ++step) make(step, batch);
}

void Batches::make(std::int64_t step, data::HostBatch& out) const {
  data::make_batch(*data_, data::BatchLayout{.batch = kRows}, step, 0, out);
}

Case host_case(const std::string& name, std::int64_t tokens, int threads, const char* source) {
  return {.name = name,
          .component = "data",
          .dtype = "u16",
          .runs = Runs::host,
          .work = {.bytes = double(tokens * 2), .items = double(tokens), .item_units = "tokens", .source = source},
          .make = {},
          .threads = threads};
}

}  // namespace mylos::bench
