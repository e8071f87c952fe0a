// A micro-batch on the host, in one block of memory as it travels to the device: tokens as narrow as they lie in the
// files, and two bits a token for everything else. kernels/batch widens it there.
//
//   tokens  [B, S + 1] u16 or u32: the inputs of a row, then the token that follows them (its last label)
//   begins  [B, W] u32, W = ceil((S + 1) / 32): bit t % 32 of word t / 32: token t begins a document. The first token of
//           a row does so with or without its bit.
//   ignored [B, W] u32: bit t: token t has no label
//
// The label of token t is token t + 1, or none where token t + 1 begins a document or t is ignored. Positions count from 0
// in each document of a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tensor/async.hpp"
#include "tensor/dtype.hpp"

namespace mylos::data {

// Where the parts of a batch lie in its block, in bytes; each begins at a multiple of 16.
struct BatchBlock {
  std::int64_t batch = 0, sequence = 0;
  DType dtype = DType::u16;

  std::int64_t words() const { return (sequence + 1 + 31) / 32; }  // W
  std::int64_t begins() const;
  std::int64_t ignored() const;
  std::int64_t bytes() const;
};

class HostBatch {
 public:
  std::int64_t batch = 0, sequence = 0;  // B, S
  DType dtype = DType::u16;
  std::int64_t step = 0, micro_batch = 0;  // what it was made for
  std::vector<std::int32_t> sources;       // [B] source of each row; -1: an empty row
  std::vector<std::int64_t> samples;       // [B] which of its source; -1: an empty row

  // By count(): labels in all, and of each row [B].
  std::int64_t valid_tokens = 0;
  std::vector<std::int32_t> row_labels;
  std::vector<std::int32_t> document_lengths;  // in tokens, in their order; a row has at least one

  // Rows without tokens or labels. Memory of an earlier use is used again; waits until the device has read it.
  void prepare(std::int64_t rows, std::int64_t sequence, DType dtype);

  // Or every row is written once, one after the other, all S + 1 tokens of each by the caller; what count() counts is counted on the way, so
  // without it. Masks are 0 before, and only what differs is written: begin_row() is for rows of prepare_unwritten() alone.
  //   b.prepare_unwritten(rows, sequence, dtype);
  //   for each row: b.begin_row(row, labelled);  b.begin_document(t);  ...  b.end_row();   or b.write_empty_row(row);
  void prepare_unwritten(std::int64_t rows, std::int64_t sequence, DType dtype);
  void begin_row(std::int64_t row,
                 std::int64_t labelled);  // tokens t < labelled, up to S, have labels where no document begins at t + 1
  void begin_document(std::int64_t t);    // 1 to S, none below the last
  void end_row();
  void write_empty_row(std::int64_t row);  // no labels; its tokens are 0

  std::byte* tokens(std::int64_t row) { return tokens_ + row * row_bytes_; }  // S + 1 of dtype
  const std::byte* tokens(std::int64_t row) const { return tokens_ + row * row_bytes_; }
  std::span<std::uint32_t> begins(std::int64_t row) { return {begins_ + row * words_, std::size_t(words_)}; }
  std::span<std::uint32_t> ignored(std::int64_t row) { return {ignored_ + row * words_, std::size_t(words_)}; }
  std::span<const std::uint32_t> begins(std::int64_t row) const {
    return {begins_ + row * words_, std::size_t(words_)};
  }
  std::span<const std::uint32_t> ignored(std::int64_t row) const {
    return {ignored_ + row * words_, std::size_t(words_)};
  }

  // After the last change to rows.
  void count();

  BatchBlock block() const { return {batch, sequence, dtype}; }
  const HostBuffer& memory() const { return memory_->buffer; }
  Event& sent() const { return memory_->sent; }  // the device has read the block

 private:
  struct Memory {
    explicit Memory(std::int64_t bytes) : buffer(bytes, "micro-batch") {}
    ~Memory();
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    HostBuffer buffer;
    Event sent;
  };
  std::unique_ptr<Memory> memory_;
  // Within it, as block() says.
  std::byte* tokens_ = nullptr;
  std::uint32_t *begins_ = nullptr, *ignored_ = nullptr;
  std::int64_t row_bytes_ = 0, words_ = 0;
  // The row that is written, its labels so far, and where its last document begins.
  std::int64_t row_ = 0, labels_ = 0, document_ = 0;
  std::int64_t labelled_ = 0;
};

inline bool bit(std::span<const std::uint32_t> mask, std::int64_t t) {
  return (mask[std::size_t(t / 32)] >> (t % 32) & 1u) != 0;
}
inline void set_bit(std::span<std::uint32_t> mask, std::int64_t t) {
  mask[std::size_t(t / 32)] |= std::uint32_t(1) << (t % 32);
}
// Sets bits [first, end), or clears them.
void set_bits(std::span<std::uint32_t> mask, std::int64_t first, std::int64_t end, bool value = true);

// What a device makes of a batch, [B, S] each, one element at a time; for tests and for people. A label of -1: none.
// document_start: as kernels/attention wants it.
struct WidenedBatch {
  std::vector<std::int32_t> tokens, labels, positions, document_start;
};
WidenedBatch widened(const HostBatch& batch);

}  // namespace mylos::data
