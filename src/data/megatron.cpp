#include "data/megatron.hpp"

#include <array>
#include <cstring>
#include <string_view>

#include "base/error.hpp"

namespace mylos::data {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr std::int64_t kHeaderBytes = 9 + 8 + 1 + 8 + 8;

// No array of an index is aligned: the header has 34 bytes.
template <class T>
T load(const std::byte* from, std::int64_t i = 0) {
  T value;
  std::memcpy(&value, from + i * std::int64_t(sizeof(T)), sizeof(T));
  return value;
}

DType dtype_of(std::uint8_t code, const std::string& name) {
  if (code == 8) return DType::u16;
  if (code == 4) return DType::u32;
  constexpr std::array<std::string_view, 8> kNames = {"unknown", "u8", "i8", "i16", "i32", "i64", "f64", "f32"};
  fail("{}: its tokens have dtype code {} ({}); 8 (u16) and 4 (i32) are read: write the .bin again in one of them",
       name, code, kNames[code < kNames.size() ? code : 0]);
}

}  // namespace

std::int64_t DocumentStarts::operator[](std::int64_t document) const {
  const std::int64_t sequence = load<std::int64_t>(documents_, document);
  // Documents without a sequence may stand at the end.
  if (sequence == sequences_) return layout_.count;
  return load<std::int64_t>(pointers_, sequence) / size_of(layout_.dtype);
}

std::int64_t DocumentStarts::document_of(std::int64_t token) const {
  std::int64_t low = 0, high = count_;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    ((*this)[middle] <= token ? low : high) = middle;
  }
  return low;
}

MegatronIndex parse_megatron_index(std::span<const std::byte> index, std::int64_t data_bytes, const std::string& name) {
  const std::int64_t have = std::int64_t(index.size());
  check(have >= kHeaderBytes, "{}: {} bytes are too few for a Megatron index, whose header has {}", name, have,
        kHeaderBytes);
  check(std::memcmp(index.data(), kMagic.data(), kMagic.size()) == 0,
        "{}: not a Megatron index (its first bytes are not MMIDIDX): an index of the older kind must be made again",
        name);
  const auto version = load<std::uint64_t>(index.data() + 9);
  check(version == 1, "{}: version {} of a Megatron index is not known; 1 is", name, version);
  const DType dtype = dtype_of(load<std::uint8_t>(index.data() + 17), name);
  const auto sequences_stated = load<std::uint64_t>(index.data() + 18),
             entries_stated = load<std::uint64_t>(index.data() + 26);
  // Bounded before they are multiplied.
  check(sequences_stated <= std::uint64_t(have) / 12 && entries_stated <= std::uint64_t(have) / 8,
        "{}: cut off: its header says {} sequences and {} entries of the document index, it has {} bytes", name,
        sequences_stated, entries_stated, have);
  const std::int64_t sequences = std::int64_t(sequences_stated), entries = std::int64_t(entries_stated);
  const std::int64_t expected = kHeaderBytes + 12 * sequences + 8 * entries;
  check(expected <= have, "{}: cut off: its header promises {} bytes, it has {}", name, expected, have);
  check(expected == have, "{}: {} bytes after its document index (modes of a multimodal data set are not read)", name,
        have - expected);
  check(entries >= 1, "{}: its document index has no entry; it needs one more than there are documents", name);

  const std::int64_t width = size_of(dtype);
  check(data_bytes % width == 0, "{}: the .bin beside it has {} bytes, no whole number of {} tokens", name, data_bytes,
        name_of(dtype));
  const TokenLayout layout{dtype, 0, data_bytes / width};
  const std::byte* const sizes = index.data() + kHeaderBytes;
  const std::byte* const pointers = sizes + 4 * sequences;
  const std::byte* const documents = pointers + 8 * sequences;
  std::int64_t token = 0;
  for (std::int64_t i = 0; i < sequences; ++i) {
    const auto size = load<std::int32_t>(sizes, i);
    const auto pointer = load<std::int64_t>(pointers, i);
    check(pointer == token * width, "{}: sequence {} begins at byte {} of the .bin, the one before it ends at {}", name,
          i, pointer, token * width);
    check(size >= 0 && size <= layout.count - token,
          "{}: sequence {} has {} tokens from token {} on, the .bin beside it has {} in all", name, i, size, token,
          layout.count);
    token += size;
  }
  check(token == layout.count, "{}: its sequences have {} tokens, the .bin beside it {}", name, token, layout.count);
  std::int64_t before = 0;
  for (std::int64_t d = 0; d < entries; ++d) {
    const auto sequence = load<std::int64_t>(documents, d);
    check(sequence >= before && sequence <= sequences && (d > 0 || sequence == 0),
          "{}: document {} begins at sequence {}; it must be {}", name, d, sequence,
          d == 0 ? std::string("0") : fmt::format("from {} to {}", before, sequences));
    before = sequence;
  }
  check(before == sequences, "{}: its last document ends at sequence {} of {}", name, before, sequences);
  return {layout, DocumentStarts(pointers, documents, entries - 1, sequences, layout)};
}

std::string megatron_index_path(const std::string& token_file) {
  check(token_file.ends_with(".bin"), "'{}': the tokens of a Megatron data set are a .bin with its .idx beside it",
        token_file);
  return token_file.substr(0, token_file.size() - 4) + ".idx";
}

}  // namespace mylos::data
