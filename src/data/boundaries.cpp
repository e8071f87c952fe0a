#include "data/boundaries.hpp"

#include "base/error.hpp"
#include "data/document_index.hpp"
#include "data/host_batch.hpp"
#include "data/token_search.hpp"

namespace mylos::data {
namespace {

bool by_index(const TokenFile& file, const DocumentRule& rule) { return rule.index && file.indexed(); }

}  // namespace

DocumentRule document_rule(std::int64_t stated, const TokenSource& source) {
  if (stated >= 0) {
    check(stated < source.vocab(), "data.document_token {} is not below the vocabulary of {}", stated, source.vocab());
    return {stated, false};
  }
  DocumentRule rule;
  const TokenFile* named_by = nullptr;
  for (const TokenFile& file : source.files()) {
    if (file.indexed()) {
      rule.index = true;
      continue;
    }
    const std::int64_t token = file.sidecar() ? file.sidecar()->end_of_text : -1;
    check(
        token >= 0,
        "documents are wanted, but nothing says where those of '{}' end: its sidecar has no end_of_text, and it has no "
        "index; set data.document_token",
        file.path());
    check(named_by == nullptr || token == rule.token,
          "documents of '{}' end with token {}, those of '{}' with {}: set data.document_token, or read them as two "
          "sources",
          named_by ? named_by->path() : "", rule.token, file.path(), token);
    check(token < source.vocab(), "the end_of_text {} of '{}' is not below the vocabulary of {}", token, file.path(),
          source.vocab());
    rule.token = token;
    named_by = &file;
  }
  return rule;
}

void mark_documents(const TokenSource& source, const DocumentRule& rule, std::int64_t first, std::int64_t count,
                    DType dtype, const std::byte* tokens, HostBatch& batch) {
  if (!rule.any()) return;
  std::int64_t done = 0;  // tokens of the files before
  source.for_each_part(first, count, [&](std::size_t i, std::int64_t from, std::int64_t here) {
    const TokenFile& file = source.files()[i];
    const bool after_indexed = from == 0 && i > 0 && by_index(source.files()[i - 1], rule);
    if (done > 0 && (after_indexed || (from == 0 && by_index(file, rule)))) batch.begin_document(done);
    if (by_index(file, rule)) {
      const DocumentStarts starts = file.documents();
      for (std::int64_t d = starts.document_of(from) + 1; d < starts.size() && starts[d] < from + here; ++d)
        if (starts[d] > from) batch.begin_document(done + starts[d] - from);
    } else {
      for_each_equal(tokens + done * size_of(dtype), here, dtype, rule.token, [&](std::int64_t t) {
        if (done + t + 1 < count) batch.begin_document(done + t + 1);
      });
    }
    done += here;
  });
}

std::vector<std::int64_t> document_ends(const TokenSource& source, const DocumentRule& rule, int threads) {
  check(rule.any(), "documents of '{}' end nowhere: neither a token nor an index says where",
        source.files().front().path());
  std::vector<std::int64_t> ends;
  const auto add = [&](std::int64_t end) {
    if (end > 0 && (ends.empty() || ends.back() < end)) ends.push_back(end);
  };
  for (std::size_t i = 0; i < source.files().size(); ++i) {
    const TokenFile& file = source.files()[i];
    const std::int64_t begin = source.begin_of(i);
    if (by_index(file, rule)) {
      add(begin);
      const DocumentStarts starts = file.documents();
      for (std::int64_t d = 1; d <= starts.size(); ++d) add(begin + starts[d]);
      add(begin + file.size());
      continue;
    }
    std::optional<DocumentIndex> index = read_document_index(file);
    // An index of another end token says nothing of this one.
    const bool fits = index && index->end_token == rule.token;
    for (const std::int64_t end : fits ? index->ends : find_ends(file, rule.token, threads)) add(begin + end);
  }
  add(source.size());
  return ends;
}

}  // namespace mylos::data
