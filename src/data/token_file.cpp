#include "data/token_file.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "data/llmc.hpp"
#include "data/npy.hpp"
#include "data/token_search.hpp"

namespace mylos::data {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian and read as they lie");

// memcpy: the data of a .npy file begins at any multiple of its header's padding, of any length in files not made by
// NumPy.
template <class T>
T load(const std::byte* from, std::int64_t i) {
  T token;
  std::memcpy(&token, from + i * std::int64_t(sizeof(T)), sizeof(T));
  return token;
}

// Returns the place of the first token at or above vocab, or count.
template <class T>
std::int64_t widen(const std::byte* from, std::int64_t count, std::int64_t vocab, std::int32_t* out) {
  T largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const T token = load<T>(from, i);
    largest = std::max(largest, token);
    out[i] = std::int32_t(token);
  }
  if (count == 0 || std::int64_t(largest) < vocab) return count;
  for (std::int64_t i = 0; i < count; ++i)
    if (std::int64_t(std::uint32_t(out[i])) >= vocab) return i;
  return count;
}

// Returns the largest. One pass: what is checked is what was copied, even if the file changes meanwhile.
template <class From, class To>
std::uint32_t copy_tokens(const std::byte* from, std::int64_t count, std::byte* out) {
  From largest = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const From token = load<From>(from, i);
    largest = std::max(largest, token);
    const To wide = token;
    std::memcpy(out + i * std::int64_t(sizeof(To)), &wide, sizeof(To));
  }
  return largest;
}

template <class T>
TokenScan scan_tokens(const std::byte* from, std::int64_t count, std::int64_t end) {
  // Blocks so short that a counter of the tokens' own width holds their number: then one vector register holds as many
  // counters as tokens.
  constexpr std::int64_t kBlock = 1 << 15;
  const bool counted = end >= 0 && end <= std::int64_t(std::numeric_limits<T>::max());
  const T wanted = counted ? T(end) : T(0);
  TokenScan result;
  T largest = 0;
  for (std::int64_t begin = 0; begin < count; begin += kBlock) {
    const std::byte* block = from + begin * std::int64_t(sizeof(T));
    const std::int64_t n = std::min(kBlock, count - begin);
    T ends = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const T token = load<T>(block, i);
      largest = std::max(largest, token);
      ends = T(ends + T(token == wanted));
    }
    result.ends += counted ? std::int64_t(ends) : 0;
  }
  result.largest = largest;
  return result;
}

}  // namespace

TokenFile::TokenFile(std::string path, const TokenFormat& declared) : path_(std::move(path)) {
  const std::optional<DType> dtype = declared.dtype;
  check(!dtype || *dtype == DType::u16 || *dtype == DType::u32, "'{}': tokens are u16 or u32, not {}", path_,
        name_of(dtype.value_or(DType::u16)));
  check(!path_.ends_with(".idx"),
        "'{}' is the index of a Megatron data set; name the .bin beside it, which holds the tokens", path_);
  data_ = MappedFile(path_);
  sidecar_ = read_sidecar(path_);
  check(!dtype || !sidecar_ || *dtype == sidecar_->dtype, "'{}' is stated to be {}, but its sidecar says {}", path_,
        name_of(dtype.value_or(DType::u16)), name_of(sidecar_ ? sidecar_->dtype : DType::u16));
  container_ = container_of(path_, data_.bytes(), data_.size(), declared.container, sidecar_);
  switch (container_) {
    case Container::raw:
      check(dtype || sidecar_,
            "'{}': raw tokens of unknown dtype; set data.dtype to \"u16\" or \"u32\", or write {{\"dtype\": \"u16\"}} "
            "into '{}'",
            path_, sidecar_path(path_));
      layout_ = raw_layout(dtype ? *dtype : sidecar_->dtype, data_.size(), path_);
      break;
    case Container::npy:
      layout_ = parse_npy_header(data_.bytes(), data_.size(), path_);
      break;
    case Container::llmc:
      layout_ = parse_llmc_header(data_.bytes(), data_.size(), path_);
      break;
    case Container::megatron: {
      const std::string path_of_index = megatron_index_path(path_);
      index_ = MappedFile(path_of_index, "Megatron index");
      const MegatronIndex index = parse_megatron_index(index_.bytes(), data_.size(), path_of_index);
      layout_ = index.layout;
      documents_ = index.documents;
      break;
    }
  }
  const DType stated = dtype ? *dtype : sidecar_ ? sidecar_->dtype : layout_.dtype;
  check(stated == layout_.dtype, "'{}' is stated to be {}, but its header says {}", path_, name_of(stated),
        name_of(layout_.dtype));
  token_bytes_ = size_of(layout_.dtype);
  check(layout_.count > 0, "token file '{}' holds no tokens", path_);
  check(!sidecar_ || sidecar_->tokens == -1 || sidecar_->tokens == layout_.count,
        "'{}' holds {} tokens, its sidecar says {}: cut off, or not its sidecar", path_, layout_.count,
        sidecar_ ? sidecar_->tokens : -1);
}

DocumentStarts TokenFile::documents() const {
  if (documents_.stated()) index_.check_whole();
  return documents_;
}

const std::byte* TokenFile::mapped(std::int64_t first, std::int64_t count) const {
  check(first >= 0 && count >= 0 && first <= size() && count <= size() - first,
        "'{}': tokens {} to {} were asked for, it holds {}", path_, first, first + count, size());
  return data_.bytes().data() + layout_.data_begin + first * token_bytes_;
}

const std::byte* TokenFile::at(std::int64_t first, std::int64_t count) const {
  data_.check_whole();
  return mapped(first, count);
}

void TokenFile::outside(std::uint32_t token, std::int64_t position, std::int64_t vocab) const {
  fail(
      "'{}': token {} at position {} is not below the vocabulary of {}: a file of another tokenizer or dtype ({}), or "
      "model.vocab is too small",
      path_, token, position, vocab, name_of(dtype()));
}

void TokenFile::read(std::int64_t first, std::int64_t count, std::int64_t vocab, std::int32_t* out) const {
  const std::byte* from = at(first, count);
  const std::int64_t bad = dtype() == DType::u16 ? widen<std::uint16_t>(from, count, vocab, out)
                                                 : widen<std::uint32_t>(from, count, vocab, out);
  if (bad < count) outside(std::uint32_t(out[bad]), first + bad, vocab);
}

void TokenFile::copy(std::int64_t first, std::int64_t count, std::int64_t vocab, DType as, std::byte* out) const {
  if (as != dtype() && (as != DType::u32 || dtype() != DType::u16))
    fail("'{}' holds {} tokens, {} were asked for", path_, name_of(dtype()), name_of(as));
  const std::byte* from = mapped(first, count);
  const std::uint32_t largest = dtype() == DType::u32 ? copy_tokens<std::uint32_t, std::uint32_t>(from, count, out)
                                : as == DType::u32    ? copy_tokens<std::uint16_t, std::uint32_t>(from, count, out)
                                                      : copy_tokens<std::uint16_t, std::uint16_t>(from, count, out);
  if (count == 0 || std::int64_t(largest) < vocab) return;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t token = as == DType::u32 ? load<std::uint32_t>(out, i) : load<std::uint16_t>(out, i);
    if (std::int64_t(token) >= vocab) outside(token, first + i, vocab);
  }
}

// Into the second-level cache, which waits for more lines at a time than the first. Loads that follow each other find the rest by themselves.
void TokenFile::prefetch(std::int64_t first, std::int64_t count, std::int64_t stride) const {
  constexpr std::int64_t kMost = 1 << 14;
  const std::byte* from = mapped(first, count);
  const std::byte* const end = from + std::min(count * token_bytes_, kMost);
  from -= reinterpret_cast<std::uintptr_t>(from) & std::uintptr_t(stride - 1);
  for (; from < end; from += stride) __builtin_prefetch(from, 0, 2);
}

TokenScan TokenFile::scan(std::int64_t first, std::int64_t count, std::int64_t end) const {
  const std::byte* from = at(first, count);
  return dtype() == DType::u16 ? scan_tokens<std::uint16_t>(from, count, end)
                               : scan_tokens<std::uint32_t>(from, count, end);
}

std::int64_t TokenFile::find_outside(std::int64_t first, std::int64_t count, std::int64_t vocab) const {
  const std::byte* from = at(first, count);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t token = dtype() == DType::u16 ? load<std::uint16_t>(from, i) : load<std::uint32_t>(from, i);
    if (token >= vocab) return first + i;
  }
  return first + count;
}

std::uint32_t TokenFile::value(std::int64_t position) const {
  const std::byte* from = at(position, 1);
  return dtype() == DType::u16 ? load<std::uint16_t>(from, 0) : load<std::uint32_t>(from, 0);
}

void TokenFile::find(std::int64_t first, std::int64_t count, std::int64_t token,
                     std::vector<std::int64_t>& positions) const {
  for_each_equal(at(first, count), count, dtype(), token, [&](std::int64_t i) { positions.push_back(first + i); });
}

}  // namespace mylos::data
