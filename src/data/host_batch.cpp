#include "data/host_batch.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kAlignment = 16;
std::int64_t aligned(std::int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::uint32_t token_at(const std::byte* row, DType dtype, std::int64_t t) {
  if (dtype == DType::u16) {
    std::uint16_t value;
    std::memcpy(&value, row + t * 2, 2);
    return value;
  }
  std::uint32_t value;
  std::memcpy(&value, row + t * 4, 4);
  return value;
}

}  // namespace

std::int64_t BatchBlock::begins() const { return aligned(batch * (sequence + 1) * size_of(dtype)); }
std::int64_t BatchBlock::ignored() const { return begins() + aligned(batch * words() * 4); }
std::int64_t BatchBlock::bytes() const { return ignored() + aligned(batch * words() * 4); }

void HostBatch::prepare(std::int64_t rows, std::int64_t length, DType type) {
  check(rows >= 1 && length >= 1 && (type == DType::u16 || type == DType::u32),
        "a batch of {} rows of {} tokens in {}; rows and tokens are at least 1, their dtype is u16 or u32", rows,
        length, name_of(type));
  if (memory_) memory_->sent.wait();
  batch = rows;
  sequence = length;
  dtype = type;
  const BatchBlock now = block();
  if (!memory_ || memory_->buffer.bytes() < now.bytes()) memory_ = std::make_unique<Memory>(now.bytes());
  std::memset(at(0), 0, std::size_t(now.bytes()));
  std::memset(at(now.ignored()), 0xff, std::size_t(batch * now.words() * 4));
  sources.assign(std::size_t(rows), -1);
  valid_tokens = 0;
  row_labels.assign(std::size_t(rows), 0);
  document_lengths.clear();
}

HostBatch::Memory::~Memory() {
  try {
    sent.wait();
  } catch (const Error&) {
    // The device is broken: whoever asks it for a result hears of that.
  }
}

std::byte* HostBatch::at(std::int64_t offset) const { return static_cast<std::byte*>(memory_->buffer.data()) + offset; }
std::byte* HostBatch::tokens(std::int64_t row) { return at(row * (sequence + 1) * size_of(dtype)); }
const std::byte* HostBatch::tokens(std::int64_t row) const { return at(row * (sequence + 1) * size_of(dtype)); }

std::span<std::uint32_t> HostBatch::mask(std::int64_t offset, std::int64_t row) const {
  const std::int64_t words = block().words();
  return {static_cast<std::uint32_t*>(static_cast<void*>(at(offset + row * words * 4))), std::size_t(words)};
}

void HostBatch::count() {
  valid_tokens = 0;
  row_labels.assign(std::size_t(batch), 0);
  document_lengths.clear();
  const std::int64_t words = block().words();
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::span<const std::uint32_t> b = begins(row), i = ignored(row);
    std::int64_t start = 0;
    for (std::int64_t w = 0; w < words; ++w) {
      // Bits of the tokens 0 .. S - 1 in this word.
      const std::int64_t left = sequence - w * 32;
      const std::uint32_t inside = left >= 32 ? ~0u : left > 0 ? (1u << left) - 1u : 0u;
      const std::uint32_t next = w + 1 < words ? b[std::size_t(w + 1)] << 31 : 0u;
      const std::uint32_t unlabelled = (b[std::size_t(w)] >> 1 | next) | i[std::size_t(w)];
      row_labels[std::size_t(row)] += std::int32_t(std::popcount(~unlabelled & inside));
      for (std::uint32_t rest = b[std::size_t(w)] & inside; rest != 0; rest &= rest - 1) {
        const std::int64_t t = w * 32 + std::countr_zero(rest);
        if (t == 0) continue;
        document_lengths.push_back(std::int32_t(t - start));
        start = t;
      }
    }
    document_lengths.push_back(std::int32_t(sequence - start));
    valid_tokens += row_labels[std::size_t(row)];
  }
}

void set_bits(std::span<std::uint32_t> mask, std::int64_t first, std::int64_t end, bool value) {
  while (first < end) {
    const std::int64_t word = first / 32, from = first % 32, to = std::min<std::int64_t>(32, from + end - first);
    const std::uint32_t bits = (to - from == 32 ? ~0u : (1u << (to - from)) - 1u) << from;
    if (value) {
      mask[std::size_t(word)] |= bits;
    } else {
      mask[std::size_t(word)] &= ~bits;
    }
    first += to - from;
  }
}

WidenedBatch widened(const HostBatch& batch) {
  WidenedBatch w;
  for (std::int64_t row = 0; row < batch.batch; ++row) {
    const std::byte* tokens = batch.tokens(row);
    const auto begins = batch.begins(row), ignored = batch.ignored(row);
    std::int32_t start = 0;
    for (std::int64_t t = 0; t < batch.sequence; ++t) {
      if (bit(begins, t)) start = std::int32_t(t);
      w.tokens.push_back(std::int32_t(token_at(tokens, batch.dtype, t)));
      w.labels.push_back(bit(begins, t + 1) || bit(ignored, t) ? -1
                                                               : std::int32_t(token_at(tokens, batch.dtype, t + 1)));
      w.positions.push_back(std::int32_t(t) - start);
      w.document_start.push_back(start);
    }
  }
  return w;
}

}  // namespace mylos::data
