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

  // By count(): labels in all, and of each row [B].
  std::int64_t valid_tokens = 0;
  std::vector<std::int32_t> row_labels;
  std::vector<std::int32_t> document_lengths;  // in tokens, in their order; a row has at least one

  // Rows without tokens or labels. Memory of an earlier use is used again; waits until the device has read it.
  void prepare(std::int64_t rows, std::int64_t sequence, DType dtype);

  std::byte* tokens(std::int64_t row);  // S + 1 of dtype
  const std::byte* tokens(std::int64_t row) const;
  std::span<std::uint32_t> begins(std::int64_t row) { return mask(block().begins(), row); }
  std::span<std::uint32_t> ignored(std::int64_t row) { return mask(block().ignored(), row); }
  std::span<const std::uint32_t> begins(std::int64_t row) const { return mask(block().begins(), row); }
  std::span<const std::uint32_t> ignored(std::int64_t row) const { return mask(block().ignored(), row); }

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
  std::byte* at(std::int64_t offset) const;
  std::span<std::uint32_t> mask(std::int64_t offset, std::int64_t row) const;

  std::unique_ptr<Memory> memory_;
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
