#include "data/inspect.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "data/file.hpp"
#include "data/token_source.hpp"
#include "data/tokenizer.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kBlock = 1 << 20;  // tokens read at a time

// Values are bounded by the dtype alone here; a value above the sidecar's vocabulary is a problem to report, not an
// error. A u32 of 2^31 or more does not fit the i32 of batches, so it stays an error.
constexpr std::int64_t kAnyToken = std::int64_t(1) << 31;

}  // namespace

TokenFileReport inspect(const std::string& path, const InspectOptions& options) {
  check(options.first >= 0 && options.show >= 0, "an excerpt of {} tokens from {}; both must be at least 0",
        options.show, options.first);
  const TokenFile file(path, options.format);
  check(options.first < file.size(), "--first {}: '{}' holds {} tokens", options.first, path, file.size());
  TokenFileReport r;
  r.path = path;
  r.container = file.container();
  r.dtype = file.dtype();
  r.tokens = file.size();
  r.sidecar = file.sidecar();
  const Sidecar stated = r.sidecar.value_or(Sidecar{});

  std::vector<std::int32_t> block(std::size_t(std::min(kBlock, file.size())));
  std::vector<bool> seen;
  r.smallest = kAnyToken;
  std::int64_t ends = 0;
  for (std::int64_t first = 0; first < file.size(); first += kBlock) {
    const std::int64_t n = std::min(kBlock, file.size() - first);
    file.read(first, n, kAnyToken, block.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t token = block[std::size_t(i)];
      r.smallest = std::min(r.smallest, token);
      r.largest = std::max(r.largest, token);
      if (token >= std::int64_t(seen.size())) seen.resize(std::size_t(token) + 1);
      if (!seen[std::size_t(token)]) ++r.distinct;
      seen[std::size_t(token)] = true;
      ends += token == stated.end_of_text;
    }
  }
  const DocumentStarts documents = file.documents();
  if (stated.end_of_text >= 0) r.documents = ends;
  if (documents.stated()) r.documents = documents.size();
  r.sha256 = sha256_of(path);
  if (stated.vocab >= 0 && r.largest >= stated.vocab)
    r.problems.push_back(
        fmt::format("the largest token {} is not below the sidecar's vocabulary of {}", r.largest, stated.vocab));
  if (!stated.sha256.empty() && stated.sha256 != r.sha256)
    r.problems.push_back(fmt::format("its SHA-256 is {}, the sidecar says {}", r.sha256, stated.sha256));
  if (stated.documents >= 0 && r.documents >= 0 && stated.documents != r.documents)
    r.problems.push_back(fmt::format("it holds {} {}, the sidecar says {} documents", r.documents,
                                     documents.stated() ? "documents" : "end tokens", stated.documents));

  const std::int64_t first = options.first;
  r.excerpt.resize(std::size_t(std::min(options.show, file.size() - first)));
  file.read(first, std::int64_t(r.excerpt.size()), kAnyToken, r.excerpt.data());
  const std::string tokenizer = options.tokenizer.empty() ? tokenizer_of(file) : options.tokenizer;
  if (!tokenizer.empty()) {
    const auto t = make_tokenizer(tokenizer);
    const bool fits = std::all_of(r.excerpt.begin(), r.excerpt.end(), [&](std::int32_t x) { return x < t->vocab(); });
    std::int32_t before = -1;
    if (first > 0) file.read(first - 1, 1, kAnyToken, &before);
    if (fits)
      r.excerpt_text = t->decode(r.excerpt, before < t->vocab() ? before : -1);
    else
      r.problems.push_back(fmt::format("the excerpt holds tokens that tokenizer '{}' does not have", tokenizer));
  }
  return r;
}

std::string describe(const TokenFileReport& r) {
  std::string text =
      fmt::format("{}\n  format     {}\n  tokens     {} ({})\n  values     {} to {}, {} different\n", r.path,
                  name_of(r.container), r.tokens, name_of(r.dtype), r.smallest, r.largest, r.distinct);
  if (r.documents >= 0) text += fmt::format("  documents  {}\n", r.documents);
  if (r.sidecar) {
    const Sidecar& s = *r.sidecar;
    if (!s.tokenizer.empty())
      text += fmt::format("  tokenizer  {}, vocabulary {}, end of text {}{}\n", s.tokenizer, s.vocab, s.end_of_text,
                          s.lossy ? "; not every text comes back exactly" : "");
    if (s.text_bytes > 0)
      text += fmt::format("  text       {} bytes, {:.3f} bytes a token\n", s.text_bytes,
                          double(s.text_bytes) / double(r.tokens));
  } else {
    text += "  sidecar    none\n";
  }
  text += fmt::format("  sha256     {}\n", r.sha256);
  text += fmt::format("  begins     {}\n", fmt::join(r.excerpt, " "));
  if (!r.excerpt_text.empty())
    text += fmt::format("  text       {}\n",
                        nlohmann::json(r.excerpt_text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  for (const std::string& p : r.problems) text += "  PROBLEM    " + p + "\n";
  if (r.problems.empty()) text += "  sound\n";
  return text;
}

std::string to_json(const TokenFileReport& r) {
  nlohmann::ordered_json j;
  j["path"] = r.path;
  j["format"] = std::string(name_of(r.container));
  j["dtype"] = std::string(name_of(r.dtype));
  j["tokens"] = r.tokens;
  j["smallest"] = r.smallest;
  j["largest"] = r.largest;
  j["distinct"] = r.distinct;
  if (r.documents >= 0) j["documents"] = r.documents;
  if (r.sidecar) j["sidecar"] = nlohmann::ordered_json::parse(write_sidecar(*r.sidecar));
  j["sha256"] = r.sha256;
  j["problems"] = r.problems;
  j["excerpt"] = r.excerpt;
  if (!r.excerpt_text.empty()) j["excerpt_text"] = r.excerpt_text;
  return j.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace mylos::data
