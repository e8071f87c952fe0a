// Where the documents of a source end: by a token, by what the files say, or both.
//
// A file with an index of its own (Megatron) ends a document where the index says, and at its own end. In other files a
// token ends one and belongs to it; a document without it goes on in the next file. The end of the source ends the last
// one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/host_batch.hpp"
#include "data/token_source.hpp"

namespace mylos::data {

struct DocumentRule {
  std::int64_t token = -1;  // >= 0: it ends a document
  bool index = false;       // files that have an index go by it instead
  bool any() const { return token >= 0 || index; }
};

// stated >= 0 (data.document_token): for all files; else the index of files that have one and end_of_text of the other
// files' sidecars. An Error when a file has neither.
DocumentRule document_rule(std::int64_t stated, const TokenSource& source);

// Begins a document of the batch's row at each token of 1 .. count - 1 that begins one, of tokens first .. first + count - 1, which lie in
// `tokens` as elements of dtype.
void mark_documents(const TokenSource& source, const DocumentRule& rule, std::int64_t first, std::int64_t count,
                    DType dtype, const std::byte* tokens, HostBatch& batch);

// The token after each document, rising; the last is source.size(). Files without an index are read whole, in parallel at
// the speed of memory, unless <file>.documents holds what would be found (document_index.hpp). threads 0: all cores.
std::vector<std::int64_t> document_ends(const TokenSource& source, const DocumentRule& rule, int threads = 0);

}  // namespace mylos::data
