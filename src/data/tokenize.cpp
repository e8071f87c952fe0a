#include "data/tokenize.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <filesystem>
#include <optional>
#include <thread>

#include "base/error.hpp"
#include "base/write_lock.hpp"
#include "data/corpus_inputs.hpp"
#include "data/corpus_manifest.hpp"
#include "data/corpus_tokenizer.hpp"
#include "data/documents.hpp"
#include "data/encoder_pool.hpp"
#include "data/file.hpp"
#include "data/python_tool.hpp"
#include "data/shard_writer.hpp"
#include "data/tokenizer.hpp"

namespace mylos::data {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kBatchBytes = std::size_t(1) << 20;
constexpr std::size_t kBatchDocuments = 4096;
// SentencePiece looks at a text as a whole and takes about 70 bytes of memory for each of its bytes.
constexpr std::size_t kSentencePieceBytes = std::size_t(1) << 20;

bool is_validation(std::int64_t document, double fraction) {
  return std::floor(double(document + 1) * fraction + 0.5) > std::floor(double(document) * fraction + 0.5);
}

std::int64_t bytes_of(const std::vector<InputFile>& inputs) {
  std::int64_t bytes = 0;
  for (const InputFile& i : inputs) bytes += i.bytes;
  return bytes;
}

// A few pieces that are encoded together.
struct Batch {
  std::vector<EncoderText> texts;
  std::vector<TextPiece> about;  // without their text
  std::vector<std::int64_t> sizes;
  CorpusPosition position;  // after it; a place to go on from when its last piece ends a document
  std::int64_t bytes_read = 0;
};

bool next_batch(DocumentReader& reader, Batch& batch) {
  batch = {};
  std::size_t bytes = 0;
  for (TextPiece piece; bytes < kBatchBytes && batch.texts.size() < kBatchDocuments && reader.next(piece);) {
    bytes += piece.text.size();
    batch.sizes.push_back(std::int64_t(piece.text.size()));
    batch.texts.push_back({std::move(piece.text), !piece.begins});
    batch.about.push_back({"", piece.begins, piece.ends, piece.document});
  }
  batch.position = reader.position();
  batch.bytes_read = reader.bytes_read();
  return !batch.texts.empty();
}

class Run {
 public:
  Run(const TokenizeOptions& options, TokenizeResult& result) : options_(options), result_(result) {
    files_ = find_inputs(options.inputs, options.extensions);
    manifest_.options = {options.tokenizer,    options.jsonl_field,  options.validation_fraction,
                         options.shard_tokens, options.skip_invalid, options.allow_lossy};
    manifest_.inputs = describe_inputs(files_);
  }

  void go() {
    begin_or_go_on();
    const Sidecar about = about_shards();
    train_.emplace(options_.out, "train", about, options_.shard_tokens, manifest_.train);
    validation_.emplace(options_.out, "validation", about, options_.shard_tokens, manifest_.validation);
    try {
      encode();
    } catch (...) {
      // Complete shards may be hours of work; less than one is begun again.
      if (train_->closed().empty() && validation_->closed().empty())
        discard();
      else
        keep();
      throw;
    }
    try {
      check_sides();
    } catch (...) {
      discard();
      throw;
    }
    keep();  // from here on a kill or an error loses nothing
    manifest_.train = train_->close();
    manifest_.validation = validation_->close();
    write_manifest(options_.out, manifest_);
    for (const auto& [writer, split] : {std::pair{&*train_, &result_.train}, {&*validation_, &result_.validation}})
      *split = {writer->finish(), writer->documents(), writer->tokens(), writer->text_bytes()};
    manifest_.complete = true;
    write_manifest(options_.out, manifest_);
    result_.vocab = manifest_.vocab;
    result_.lossy = manifest_.lossy;
    result_.skipped = manifest_.left_out;
  }

 private:
  void begin_or_go_on() {
    std::error_code error;
    fs::create_directories(options_.out, error);
    check(!error && fs::is_directory(options_.out, error), "cannot make the folder '{}': {}; name another with --out",
          options_.out, error ? error.message() : "it is a file");
    lock_.emplace(options_.out, "`mylos tokenize`");
    const auto before = read_manifest(options_.out);
    if (before && !before->complete) {
      check_same_run(options_.out, *before, manifest_);
      manifest_ = *before;
      result_.resumed_at = manifest_.position.document;
    } else {
      for (const auto& entry : fs::directory_iterator(options_.out))
        check(entry.path().extension() != ".bin",
              "'{}' holds token shards already ('{}'): name another folder or remove them", options_.out,
              entry.path().filename().string());
      std::vector<std::string> valid = files_;
      if (options_.skip_invalid) manifest_.left_out = take_invalid(valid);
      check(!valid.empty(), "none of the {} inputs is UTF-8", files_.size());
    }
    std::erase_if(files_, [&](const std::string& f) {
      return std::find(manifest_.left_out.begin(), manifest_.left_out.end(), f) != manifest_.left_out.end();
    });
    const bool going_on = before && !before->complete;
    result_.tokenizer =
        prepare_tokenizer(options_, going_on, manifest_,
                          [&](std::int64_t vocab, const std::string& path) { train_tokenizer(vocab, path); });
    if (manifest_.position == CorpusPosition{}) write_manifest(options_.out, manifest_);
  }

  void train_tokenizer(std::int64_t vocab, const std::string& path) {
    TokenizerProcess process({"train", "--vocab", std::to_string(vocab), "--out", path});
    DocumentReader reader(files_, options_.jsonl_field, true);
    Batch batch;
    while (next_batch(reader, batch)) {
      // Validation text is held out of the tokenizer's training too.
      std::vector<EncoderText> seen;
      for (std::size_t i = 0; i < batch.texts.size(); ++i)
        if (!is_validation(batch.about[i].document, options_.validation_fraction))
          seen.push_back(std::move(batch.texts[i]));
      send_texts(process, seen);
      report("training", batch.bytes_read, batch.position.document, 0);
    }
    process.finish();
  }

  Sidecar about_shards() const {
    Sidecar about;
    about.dtype = manifest_.vocab <= 1 << 16 ? DType::u16 : DType::u32;
    about.vocab = manifest_.vocab;
    about.tokenizer = manifest_.tokenizer;
    about.end_of_text = manifest_.end_of_text;
    about.lossy = !manifest_.lossy.empty();
    return about;
  }

  void encode() {
    const int jobs = options_.jobs > 0 ? options_.jobs : std::max(1, int(std::thread::hardware_concurrency()));
    DocumentReader reader(files_, options_.jsonl_field, manifest_.tokenizer != "byte", manifest_.position,
                          is_sentencepiece(manifest_.tokenizer) ? kSentencePieceBytes : kPieceBytes);
    EncoderPool pool(result_.tokenizer, manifest_.vocab, jobs);
    bytes_before_ = reader.bytes_read();
    std::deque<std::pair<Batch, std::future<TokenBatch>>> under_way;
    Batch batch;
    for (bool more = true; more || !under_way.empty();) {
      // Enough batches that no process waits while the oldest is written.
      while (more && under_way.size() < std::size_t(2 * jobs + 1)) {
        more = next_batch(reader, batch);
        if (!more) break;
        auto tokens = pool.encode(std::move(batch.texts));
        under_way.emplace_back(std::move(batch), std::move(tokens));
      }
      if (under_way.empty()) break;
      write(under_way.front().first, under_way.front().second.get());
      under_way.pop_front();
    }
  }

  void write(const Batch& batch, const TokenBatch& tokens) {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const TextPiece& piece = batch.about[i];
      (is_validation(piece.document, options_.validation_fraction) ? *validation_ : *train_)
          .add(tokens[i], batch.sizes[i], piece.ends);
    }
    if (batch.about.back().ends) record(batch.position);
    report("encoding", batch.bytes_read, batch.position.document, train_->tokens() + validation_->tokens());
  }

  void record(const CorpusPosition& position) {
    const auto now = std::chrono::steady_clock::now();
    const std::size_t shards = train_->closed().size() + validation_->closed().size();
    if (shards == recorded_shards_ &&
        std::chrono::duration<double>(now - recorded_).count() < options_.checkpoint_seconds)
      return;
    recorded_shards_ = shards;
    manifest_.position = position;
    manifest_.train = train_->sync();
    manifest_.validation = validation_->sync();
    write_manifest(options_.out, manifest_);
    recorded_ = std::chrono::steady_clock::now();
  }

  void check_sides() {
    const double fraction = options_.validation_fraction;
    const std::int64_t documents = train_->documents() + validation_->documents();
    check(documents > 0, "the inputs hold no text");
    check(fraction == 0 || documents > 1,
          "one document cannot be split: use --validation-fraction 0 for no validation tokens");
    check(fraction == 0 || validation_->documents() > 0,
          "{} documents are too few for --validation-fraction {}: use at least {}, or 0 for no validation tokens",
          documents, fraction, 0.5 / double(documents));
    check(train_->documents() > 0,
          "--validation-fraction {} leaves no training document of {}: use 0 or give more documents", fraction,
          documents);
  }

  void report(const char* phase, std::int64_t bytes, std::int64_t documents, std::int64_t tokens) const {
    if (options_.progress)
      options_.progress({phase, bytes, bytes_before_, bytes_of(manifest_.inputs), documents, tokens});
  }

  void keep() {
    train_->keep();
    validation_->keep();
  }
  void discard() {
    std::error_code ignored;
    fs::remove(manifest_path(options_.out), ignored);
  }

  const TokenizeOptions& options_;
  TokenizeResult& result_;
  std::vector<std::string> files_;  // without those left out
  std::optional<WriteLock> lock_;
  CorpusManifest manifest_;
  std::optional<ShardWriter> train_, validation_;
  std::int64_t bytes_before_ = 0;
  std::size_t recorded_shards_ = 0;
  std::chrono::steady_clock::time_point recorded_ = std::chrono::steady_clock::now();
};

}  // namespace

TokenizeResult tokenize(const TokenizeOptions& options) {
  check(options.validation_fraction >= 0 && options.validation_fraction <= 0.5,
        "a validation fraction of {}; it must be from 0 to 0.5", options.validation_fraction);
  check(options.shard_tokens >= 1 && options.shard_tokens <= std::int64_t(1) << 40,
        "shards of {} tokens; from 1 to 2^40 are possible", options.shard_tokens);
  check(options.jobs >= 0 && options.jobs <= 1024, "--jobs {}: from 0 (one a core) to 1024 are possible", options.jobs);
  check(!options.out.empty(), "no folder to write to: name one with --out");
  TokenizeResult result;
  Run(options, result).go();
  return result;
}

}  // namespace mylos::data
