#include "kernels/attention/documents.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "kernels/attention/document_tables.hpp"
#include "kernels/attention/providers.hpp"
#include "kernels/attention/ragged.hpp"

namespace mylos::kernels {
namespace {

// A class more would cost more launches than its longest document costs time.
constexpr std::size_t kShortestClass = 6;

std::int64_t longest_of(std::size_t c) { return std::int64_t(1) << c; }

// The most documents of class c: what B rows of S tokens hold, and in the shortest class what keeps its workspace, room
// for 64 x 64 scores a document, near that of the others.
std::int64_t most_of(const AttentionShape& s, std::size_t c) {
  if (c > kShortestClass) return s.batch * (s.sequence / (longest_of(c - 1) + 1));
  return s.batch * std::min(s.sequence, std::max<std::int64_t>(64, s.sequence / 16));
}

// The least 2^k or 1.5 * 2^k.
std::int64_t rounded_up(std::int64_t n) {
  const auto power = std::int64_t(std::bit_ceil(std::uint64_t(n)));
  return n <= power / 4 * 3 ? power / 4 * 3 : power;
}

}  // namespace

void AttentionLengths::add(std::int64_t tokens) {
  check(tokens >= 1 && tokens < (std::int64_t(1) << 31), "attention: a document of {} tokens; it has at least 1",
        tokens);
  const auto c = std::size_t(std::bit_width(std::uint64_t(tokens - 1)));
  ++counts_[c];
  longest_[c] = std::max(longest_[c], tokens);
}

std::int64_t AttentionLengths::longest() const { return *std::max_element(longest_.begin(), longest_.end()); }

std::int64_t AttentionLengths::documents() const {
  std::int64_t sum = 0;
  for (const std::int64_t n : counts_) sum += n;
  return sum;
}

AttentionBucket attention_bucket(const AttentionShape& shape, DType dtype, const AttentionLengths& lengths,
                                 const AttentionOptions& options) {
  check(lengths.documents() >= shape.batch, "attention: {} documents in {} rows; each row has at least one",
        lengths.documents(), shape.batch);
  AttentionBucket bucket;
  bucket.whole = lengths.documents() == shape.batch;
  if (bucket.whole || !attention::has_provider(attention::Provider::cudnn, shape, dtype)) return bucket;
  if (attention::tiles::supports(shape, dtype) && lengths.longest() <= attention::tiles::faster_up_to(shape.head_size))
    return bucket;
  return attention::bucket_of(shape, lengths, options.deterministic);
}

std::int64_t attention_document_tables(const AttentionShape& shape, DType dtype) {
  if (!attention::has_provider(attention::Provider::cudnn, shape, dtype)) return 0;
  return attention::tables_of(shape, attention::largest_bucket(shape)).bytes;
}

void attention_prepare_documents(const Stream& stream, const AttentionShape& shape,
                                 const AttentionDocuments& documents) {
  if (!documents || !documents.bucket) return;
  expect("attention", "document_start", documents.start, DType::i32, {shape.batch, shape.sequence});
  expect_dense("attention", "document_start", documents.start);
  const attention::DocumentTables tables = attention::tables_of(shape, documents.bucket);
  check(documents.tables && documents.tables.bytes() >= tables.bytes,
        "attention: tables of documents have {} bytes, {} needed; ask attention_document_tables()",
        documents.tables ? documents.tables.bytes() : 0, tables.bytes);
  attention::write_tables(stream, shape, documents.start.as<std::int32_t>(), tables, documents.tables.data());
}

namespace attention {

AttentionBucket grouped(const AttentionShape& s, const AttentionLengths& lengths, std::size_t doublings) {
  AttentionBucket bucket;
  std::size_t calls = 0, left = 0;
  std::int64_t longest = 0, count = 0, most = 0;
  for (std::size_t c = kLengthClasses; c-- > 0;) {
    longest = std::max(longest, lengths.longest_of_class(c));
    count += lengths.of_class(c);
    if (c > kShortestClass || c == 0) most += most_of(s, std::max(c, kShortestClass));
    if (longest > 0 && left == 0) left = doublings;
    const bool last = c == 0 || (left > 0 && --left == 0 && c > kShortestClass);
    if (!last || count == 0) {
      if (longest == 0) most = 0;
      continue;
    }
    const std::int64_t room = std::min(most, rounded_up(count));
    const std::int64_t tokens = (std::min(rounded_up(std::max<std::int64_t>(longest, 64)), s.sequence) + 63) / 64 * 64;
    bucket.calls[calls++] = {std::int32_t(tokens), std::int32_t(room)};
    longest = count = most = 0;
  }
  std::reverse(bucket.calls.begin(), bucket.calls.begin() + std::ptrdiff_t(calls));
  return bucket;
}

AttentionBucket bucket_of(const AttentionShape& shape, const AttentionLengths& lengths, bool deterministic) {
  std::int64_t n = 0;
  for (std::size_t c = 0; c < kLengthClasses; ++c) {
    n += lengths.of_class(c);
    if (c < kShortestClass || n == 0) continue;
    const std::int64_t most = most_of(shape, c);
    if (c == kShortestClass && n > most) return {};
    check(n <= most, "attention: {} documents of more than {} tokens; {} rows of {} hold {}", n, longest_of(c - 1),
          shape.batch, shape.sequence, most);
    n = 0;
  }
  const std::int64_t budget = ragged_budget(shape, deterministic);
  const auto fits = [&](const AttentionBucket::Call& call) {
    return call.room == 0 || ragged_call(shape, call.longest, call.room, deterministic).workspace <= budget;
  };
  AttentionBucket bucket;
  for (const std::size_t doublings : {kLengthClasses, std::size_t(2), std::size_t(1)}) {
    bucket = grouped(shape, lengths, doublings);
    if (std::all_of(bucket.calls.begin(), bucket.calls.end(), fits)) break;
  }
  return bucket;
}

AttentionBucket largest_bucket(const AttentionShape& shape) {
  AttentionBucket largest;
  std::size_t c = kShortestClass, calls = 0;
  do
    largest.calls[calls++] = {std::int32_t(std::min(longest_of(c), (shape.sequence + 63) / 64 * 64)),
                              std::int32_t(most_of(shape, c))};
  while (longest_of(c++) < shape.sequence);
  return largest;
}

DocumentTables tables_of(const AttentionShape& s, const AttentionBucket& bucket) {
  DocumentTables t;
  t.widths = {s.heads, (s.heads + 2 * s.kv_heads) * s.head_size, (s.heads + s.kv_heads) * s.head_size,
              s.heads * s.head_size, s.kv_heads * s.head_size};
  // What a vendor library reads stays aligned to a vector.
  const auto take = [&](std::int64_t bytes) {
    const std::int64_t at = t.bytes;
    t.bytes += (bytes + 15) / 16 * 16;
    return at;
  };
  for (const auto& [longest, room] : bucket.calls)
    if (room > 0)
      t.classes[std::size_t(t.count++)] = {longest, room, take(room * 4),
                                           take(kRowWidths * (room + std::int64_t(1)) * 8)};
  return t;
}

}  // namespace attention
}  // namespace mylos::kernels
