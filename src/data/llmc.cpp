#include "data/llmc.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/error.hpp"

namespace mylos::data {
namespace {

constexpr std::int64_t kHeaderBytes = 256 * 4;

struct Words {
  std::int32_t magic = 0, version = 0, count = 0;
};

Words words_of(std::span<const std::byte> bytes) {
  Words w;
  std::memcpy(&w, bytes.data(), sizeof w);
  return w;
}

std::optional<DType> dtype_of(const Words& w) {
  if (w.magic == 20240520 && w.version == 1) return DType::u16;
  if (w.magic == 20240801 && w.version == 7) return DType::u32;
  return std::nullopt;
}

}  // namespace

TokenLayout parse_llmc_header(std::span<const std::byte> bytes, std::int64_t file_bytes, const std::string& name) {
  const std::int64_t have = std::min(std::int64_t(bytes.size()), file_bytes);
  check(have >= kHeaderBytes, "{}: {} bytes are too few for an llm.c shard, whose header has {}", name, have,
        kHeaderBytes);
  const Words w = words_of(bytes);
  check(w.magic == 20240520 || w.magic == 20240801,
        "{}: not an llm.c shard: it begins with {}, not with 20240520 (u16) or 20240801 (u32)", name, w.magic);
  const std::optional<DType> dtype = dtype_of(w);
  check(dtype.has_value(), "{}: version {} of an llm.c shard with magic {} is not known; {} is", name, w.version,
        w.magic, w.magic == 20240520 ? 1 : 7);
  check(w.count >= 0, "{}: its llm.c header says {} tokens", name, w.count);
  const std::int64_t room = (file_bytes - kHeaderBytes) / size_of(*dtype);
  check(w.count <= room, "{}: cut off: its llm.c header says {} tokens, the file has room for {}", name, w.count, room);
  const std::int64_t end = kHeaderBytes + w.count * size_of(*dtype);
  check(end == file_bytes, "{}: {} bytes after the {} tokens of its llm.c header", name, file_bytes - end, w.count);
  return {*dtype, kHeaderBytes, w.count};
}

bool begins_like_llmc(std::span<const std::byte> bytes, std::int64_t file_bytes) {
  if (std::min(std::int64_t(bytes.size()), file_bytes) < kHeaderBytes) return false;
  const Words w = words_of(bytes);
  const std::optional<DType> dtype = dtype_of(w);
  return dtype && kHeaderBytes + w.count * size_of(*dtype) == file_bytes;
}

}  // namespace mylos::data
