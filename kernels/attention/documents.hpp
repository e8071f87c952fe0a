// Where the documents of a batch lie, for attention that stays inside them.
//
//   start [B, S] i32: the place in its row of the first token of a token's document; non-decreasing along a row,
//   0 <= start[b, i] <= i, so that a document begins where start[b, i] == i
//   lengths: the host counts documents by length and rounds the counts up to a bucket, so that few kinds of work are
//   planned, recorded and kept; batches of the same bucket can replay each other's recording
//   tables: what attention_prepare_documents() makes of start for the bucket, once a batch, on the device
// The documents of a batch must fit its bucket: on the device more, or longer ones, stop the program. Without a bucket
// attention is as exact: on a GPU our own kernels do it from start alone, on tensor cores where they can (bf16, heads of 64
// or 128), else at a fraction of that speed.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include "tensor/runtime.hpp"

namespace mylos::kernels {

struct AttentionShape;
struct AttentionOptions;

inline constexpr std::size_t kLengthClasses = 32;

// Documents of a batch by length: class c has those of 2^(c-1) < tokens <= 2^c.
class AttentionLengths {
 public:
  void add(std::int64_t tokens);
  std::int64_t of_class(std::size_t c) const { return counts_[c]; }
  std::int64_t longest_of_class(std::size_t c) const { return longest_[c]; }
  std::int64_t documents() const;
  std::int64_t longest() const;  // 0: of none

 private:
  std::array<std::int64_t, kLengthClasses> counts_{}, longest_{};
};

// Calls that do the work of a batch, most often one: call i takes the documents of more tokens than call i-1 does and at most
// `longest`, of which `room` fit.
struct AttentionBucket {
  struct Call {
    std::int32_t longest = 0, room = 0;
    auto operator<=>(const Call&) const = default;
  };
  std::array<Call, kLengthClasses> calls{};  // by length; those behind the last have no room
  bool whole = false;                        // each row is one document, which needs no tables

  explicit operator bool() const { return whole || calls[0].room > 0; }
  auto operator<=>(const AttentionBucket&) const = default;
};
// Counts and lengths are rounded up to 2^k or 1.5 * 2^k. One call, where its workspace is within what attention_workspace()
// plans; else calls by length. None where this device or build has no use for it or our own kernels are faster, and for a
// swarm of short documents: more than max(64, S / 16) a row of 64 tokens or less.
AttentionBucket attention_bucket(const AttentionShape& shape, DType dtype, const AttentionLengths& lengths,
                                 const AttentionOptions& options);

struct AttentionDocuments {
  AttentionDocuments() = default;  // one document a row
  AttentionDocuments(const Tensor& document_start) : start(document_start) {}
  AttentionDocuments(const Tensor& document_start, const AttentionBucket& of, const Tensor& memory)
      : start(document_start), bucket(of), tables(memory) {}
  explicit operator bool() const { return bool(start) && !bucket.whole; }

  Tensor start;
  AttentionBucket bucket;
  Tensor tables;  // u8
};
// Bytes (u8) that the tables of any bucket take; 0 where none are used.
std::int64_t attention_document_tables(const AttentionShape& shape, DType dtype);
// Writes the tables; nothing to do without a bucket. Neither allocates nor waits.
void attention_prepare_documents(const Stream& stream, const AttentionShape& shape,
                                 const AttentionDocuments& documents);

}  // namespace mylos::kernels
