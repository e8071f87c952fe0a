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
  prepare_unwritten(rows, length, type);
  std::memset(tokens_, 0, std::size_t(rows * row_bytes_));
  std::memset(ignored_, 0xff, std::size_t(rows * words_ * 4));
}

void HostBatch::prepare_unwritten(std::int64_t rows, std::int64_t length, DType type) {
  check(rows >= 1 && length >= 1 && (type == DType::u16 || type == DType::u32),
        "a batch of {} rows of {} tokens in {}; rows and tokens are at least 1, their dtype is u16 or u32", rows,
        length, name_of(type));
  if (memory_) memory_->sent.wait();
  batch = rows;
  sequence = length;
  dtype = type;
  const BatchBlock now = block();
  if (!memory_ || memory_->buffer.bytes() < now.bytes()) memory_ = std::make_unique<Memory>(now.bytes());
  const auto mask = [&](std::int64_t offset) {
    return static_cast<std::uint32_t*>(static_cast<void*>(tokens_ + offset));
  };
  tokens_ = static_cast<std::byte*>(memory_->buffer.data());
  begins_ = mask(now.begins());
  ignored_ = mask(now.ignored());
  row_bytes_ = (length + 1) * size_of(type);
  words_ = now.words();
  std::memset(begins_, 0, std::size_t(now.bytes() - now.begins()));  // of all rows at once; ignored_ follows
  sources.assign(std::size_t(rows), -1);
  samples.assign(std::size_t(rows), -1);
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

void HostBatch::begin_row(std::int64_t row, std::int64_t labelled) {
  std::uint32_t* const i = ignored_ + row * words_;
  i[labelled / 32] = ~0u << labelled % 32;
  for (std::int64_t w = labelled / 32 + 1; w < words_; ++w) i[w] = ~0u;
  row_ = row;
  labelled_ = labels_ = labelled;
  document_ = 0;
}

void HostBatch::begin_document(std::int64_t t) {
  if (t == document_) return;
  set_bit(begins(row_), t);
  labels_ -= t <= labelled_;
  if (t == sequence) return;
  document_lengths.push_back(std::int32_t(t - document_));
  document_ = t;
}

void HostBatch::end_row() {
  document_lengths.push_back(std::int32_t(sequence - document_));
  row_labels[std::size_t(row_)] = std::int32_t(labels_);
  valid_tokens += labels_;
}

void HostBatch::write_empty_row(std::int64_t row) {
  std::memset(tokens(row), 0, std::size_t(row_bytes_));
  begin_row(row, 0);
  end_row();
}

void HostBatch::count() {
  valid_tokens = 0;
  document_lengths.clear();
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::uint32_t *b = begins_ + row * words_, *i = ignored_ + row * words_;
    std::int64_t labels = 0, start = 0;
    for (std::int64_t w = 0; w < words_; ++w) {
      // Bits of the tokens 0 .. S - 1 in this word.
      const std::int64_t left = sequence - w * 32;
      const std::uint32_t inside = left >= 32 ? ~0u : (1u << left) - 1u;
      const std::uint32_t next = w + 1 < words_ ? b[w + 1] << 31 : 0u;
      labels += std::popcount(~(b[w] >> 1 | next | i[w]) & inside);
      for (std::uint32_t rest = b[w] & inside; rest != 0; rest &= rest - 1) {
        const std::int64_t t = w * 32 + std::countr_zero(rest);
        if (t == 0) continue;
        document_lengths.push_back(std::int32_t(t - start));
        start = t;
      }
    }
    document_lengths.push_back(std::int32_t(sequence - start));
    row_labels[std::size_t(row)] = std::int32_t(labels);
    valid_tokens += labels;
  }
}

void set_bits(std::span<std::uint32_t> mask, std::int64_t first, std::int64_t end, bool value) {
  if (first >= end) return;
  const auto put = [&](std::int64_t word, std::uint32_t bits) {
    std::uint32_t& m = mask[std::size_t(word)];
    m = value ? m | bits : m & ~bits;
  };
  const std::int64_t from = first / 32, to = end / 32;
  const std::uint32_t not_before = ~0u << first % 32, before = (1u << end % 32) - 1u;
  if (from == to) return put(from, not_before & before);
  put(from, not_before);
  std::fill(mask.begin() + from + 1, mask.begin() + to, value ? ~0u : 0u);
  if (before != 0) put(to, before);
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
