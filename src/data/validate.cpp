#include "data/validate.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <future>
#include <thread>

#include "base/error.hpp"
#include "data/document_index.hpp"
#include "data/file.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kChunk = 1 << 21;  // tokens a thread takes at a time

// What one thread saw, of the chunks it took.
struct Part {
  TokenScan scan;
  std::int64_t bad_chunk = -1;  // the first with a token outside the vocabulary
};

Part scan_chunks(const TokenFile& file, std::int64_t vocab, std::int64_t end, std::atomic<std::int64_t>& next) {
  Part part;
  for (std::int64_t first; (first = next.fetch_add(kChunk)) < file.size();) {
    const TokenScan s = file.scan(first, std::min(kChunk, file.size() - first), end);
    part.scan.largest = std::max(part.scan.largest, s.largest);
    part.scan.ends += s.ends;
    if (part.bad_chunk < 0 && std::int64_t(s.largest) >= vocab) part.bad_chunk = first;
  }
  return part;
}

Part scan_file(const TokenFile& file, std::int64_t vocab, std::int64_t end, int threads) {
  std::atomic<std::int64_t> next{0};
  std::vector<std::future<Part>> parts;  // an error of one thread is thrown by its get(), after the others have ended
  for (int i = 0; i < threads; ++i)
    parts.push_back(std::async(std::launch::async, [&] { return scan_chunks(file, vocab, end, next); }));
  Part all;
  for (auto& p : parts) {
    const Part part = p.get();
    all.scan.largest = std::max(all.scan.largest, part.scan.largest);
    all.scan.ends += part.scan.ends;
    if (part.bad_chunk >= 0 && (all.bad_chunk < 0 || part.bad_chunk < all.bad_chunk)) all.bad_chunk = part.bad_chunk;
  }
  return all;
}

// What is wrong with the index of documents beside the file; empty: nothing, or there is none.
std::string index_problem(const TokenFile& file, int threads) {
  try {
    const std::optional<DocumentIndex> index = read_document_index(file);
    if (!index || find_ends(file, index->end_token, threads) == index->ends) return {};
    return fmt::format("'{}' does not say where its end tokens ({}) are; make it anew with: mylos data index",
                       document_index_path(file.path()), index->end_token);
  } catch (const Error& e) {
    return e.what();
  }
}

}  // namespace

Validation validate(const std::string& path, const ValidateOptions& options) {
  check(!options.vocab || *options.vocab > 0, "a vocabulary of {} tokens; it must be at least 1",
        options.vocab.value_or(0));
  check(options.threads >= 0, "{} threads; it must be at least 1, or 0 for all cores", options.threads);
  const auto start = std::chrono::steady_clock::now();
  const TokenFile file(path, options.format);
  const Sidecar stated = file.sidecar().value_or(Sidecar{});
  check(options.vocab || stated.vocab > 0, "'{}': no vocabulary to hold its tokens against; give --vocab or --config",
        path);
  Validation v;
  v.path = path;
  v.container = file.container();
  v.dtype = file.dtype();
  v.tokens = file.size();
  v.bytes = file.size() * size_of(file.dtype());
  v.vocab = options.vocab.value_or(stated.vocab);
  if (stated.vocab > 0) v.vocab = std::min(v.vocab, stated.vocab);

  const bool sums = options.sha256 && !stated.sha256.empty();
  std::future<std::string> sum;
  if (sums) sum = std::async(std::launch::async, [&] { return sha256_of(path); });
  const int cores = std::max(1, int(std::thread::hardware_concurrency()));
  const Part part =
      scan_file(file, v.vocab, stated.end_of_text, options.threads > 0 ? std::min(options.threads, 1024) : cores);
  v.largest = part.scan.largest;
  if (part.bad_chunk >= 0) {
    const std::int64_t bad = file.find_outside(part.bad_chunk, std::min(kChunk, file.size() - part.bad_chunk), v.vocab);
    v.problems.push_back(
        fmt::format("token {} at position {} is not below the vocabulary of {}", file.value(bad), bad, v.vocab));
  }
  const DocumentStarts documents = file.documents();
  if (stated.end_of_text >= 0) v.documents = part.scan.ends;
  if (documents.stated()) v.documents = documents.size();
  if (stated.documents >= 0 && v.documents >= 0 && v.documents != stated.documents)
    v.problems.push_back(fmt::format("it holds {} {}, its sidecar says {} documents", v.documents,
                                     documents.stated() ? "documents" : "end tokens", stated.documents));
  if (const std::string problem = index_problem(file, options.threads); !problem.empty()) v.problems.push_back(problem);
  if (sums) {
    const std::string is = sum.get();
    v.sha256 = true;
    if (is != stated.sha256)
      v.problems.push_back(fmt::format("its SHA-256 is {}, its sidecar says {}", is, stated.sha256));
  }
  v.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return v;
}

std::string describe(const Validation& v) {
  if (!v.problems.empty()) return fmt::format("{}: FAILED: {}", v.path, fmt::join(v.problems, "; "));
  std::string text = fmt::format("{}: sound: {}, {} {} tokens, largest {} of {}", v.path, name_of(v.container),
                                 v.tokens, name_of(v.dtype), v.largest, v.vocab);
  if (v.documents >= 0) text += fmt::format(", {} documents", v.documents);
  if (v.sha256) text += ", SHA-256 agrees";
  return text + fmt::format(", {:.2f} GB/s", double(v.bytes) / v.seconds / 1e9);
}

}  // namespace mylos::data
