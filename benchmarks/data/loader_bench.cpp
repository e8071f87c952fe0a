// GB/s of token bytes from a file in the page cache into micro-batches, rows in a random order: [B, S] of u16, cut every S
// tokens or packed, from one source or three. threads/n: n threads make batches, each its own; loader_threads:n: those of a
// Loader, whose reader takes batches in order.
//
// The file is made in the folder for temporary files: 256 MiB of documents of log-normal length, mean 600 tokens.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/loader.hpp"
#include "data/training_data.hpp"
#include "tensor/runtime.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kTokens = std::int64_t(128) << 20, kVocab = 50257, kEnd = 50256;
constexpr std::int64_t kBatch = 16;

struct Corpus {
  std::string folder = (std::filesystem::temp_directory_path() / "mylos-bench-XXXXXX").string();
  Corpus() {
    check(::mkdtemp(folder.data()) != nullptr, "cannot make a folder for the benchmark");
    std::mt19937_64 gen(1);
    constexpr double kSigma = 1.2;
    std::lognormal_distribution<double> length(std::log(600.0) - kSigma * kSigma / 2, kSigma);
    std::vector<std::uint16_t> tokens(static_cast<std::size_t>(kTokens));
    for (auto& t : tokens) t = std::uint16_t(gen() % std::uint64_t(kEnd));
    for (std::int64_t at = 0; (at += 1 + std::int64_t(length(gen))) < kTokens;)
      tokens[std::size_t(at)] = std::uint16_t(kEnd);
    std::ofstream(file(), std::ios::binary)
        .write(reinterpret_cast<const char*>(tokens.data()), std::streamsize(tokens.size() * 2));
  }
  ~Corpus() {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  std::string file() const { return folder + "/tokens.bin"; }
};

enum class Kind { concat, documents, best_fit, mixture };
const char* const kNames[] = {"concat", "documents", "best_fit", "mixture_best_fit"};

std::unique_ptr<TrainingData> open(const Corpus& corpus, Kind kind, std::int64_t sequence, std::int64_t per_step) {
  DataConfig config;
  config.dtype = StatedDType::u16;
  config.document_token = kEnd;
  config.documents = kind != Kind::concat;
  config.packing = kind == Kind::concat || kind == Kind::documents ? Packing::concat : Packing::best_fit;
  if (kind == Kind::mixture) {
    for (const auto& [name, weight] : {std::pair{"a", 5.0}, {"b", 2.0}, {"c", 1.0}})
      config.sources.emplace_back(name, SourceConfig{.files = {corpus.file()}, .weight = weight});
  } else {
    config.train = {corpus.file()};
  }
  return std::make_unique<TrainingData>(config, kVocab, sequence, per_step);
}

void batches(benchmark::State& state, const Corpus& corpus, Kind kind, std::int64_t sequence) {
  static std::unique_ptr<TrainingData> data;
  const BatchLayout layout{kBatch, state.threads()};
  if (state.thread_index() == 0) data = open(corpus, kind, sequence, layout.samples_per_step());
  HostBatch batch;
  std::int64_t step = 0, valid = 0;
  for (auto _ : state) {  // all threads begin together, after the data is open
    make_batch(*data, layout, step++, state.thread_index(), batch);
    valid += batch.valid_tokens;
  }
  benchmark::DoNotOptimize(valid);
  state.SetBytesProcessed(step * kBatch * sequence * 2);
  if (state.thread_index() == 0) {
    state.counters["fill"] = data->fill();
    data.reset();
  }
}

void loader(benchmark::State& state, const Corpus& corpus, Kind kind, std::int64_t sequence, std::int64_t threads) {
  const BatchLayout layout{kBatch};
  const auto data = open(corpus, kind, sequence, kBatch);
  Loader loader([&](std::int64_t s, std::int64_t m, HostBatch& b) { make_batch(*data, layout, s, m, b); }, 1, 0, 8,
                threads);
  HostBatch batch;
  for (auto _ : state) loader.next(batch);
  state.SetBytesProcessed(state.iterations() * kBatch * sequence * 2);
}

// What a run waits for before its first step.
void packing(benchmark::State& state, const Corpus& corpus, std::int64_t sequence) {
  const TokenSource source({corpus.file()}, {DType::u16}, kVocab);
  for (auto _ : state) benchmark::DoNotOptimize(PackedRows(document_ends(source, {kEnd}), sequence).size());
  state.SetBytesProcessed(state.iterations() * kTokens * 2);
}

void add_all(const Corpus& corpus) {
  for (const std::int64_t sequence : {512, 2048, 8192}) {
    const std::string shape = "/S" + std::to_string(sequence);
    for (const Kind kind : {Kind::concat, Kind::documents, Kind::best_fit, Kind::mixture}) {
      const std::string name = kNames[int(kind)] + shape;
      benchmark::RegisterBenchmark(
          ("make_batch/" + name).c_str(),
          [&corpus, kind, sequence](benchmark::State& s) { batches(s, corpus, kind, sequence); })
          ->ThreadRange(1, 2)
          ->UseRealTime();
      for (const std::int64_t threads : {1, 2})
        benchmark::RegisterBenchmark(
            ("loader/" + name + "/loader_threads:" + std::to_string(threads)).c_str(),
            [&corpus, kind, sequence, threads](benchmark::State& s) { loader(s, corpus, kind, sequence, threads); })
            ->UseRealTime();
    }
    benchmark::RegisterBenchmark(("find_and_pack" + shape).c_str(),
                                 [&corpus, sequence](benchmark::State& s) { packing(s, corpus, sequence); })
        ->UseRealTime()
        ->Unit(benchmark::kMillisecond);
  }
}

}  // namespace
}  // namespace mylos::data

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  const mylos::Runtime runtime;  // batches lie in memory that a device can read from
  const mylos::data::Corpus corpus;
  mylos::data::add_all(corpus);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
