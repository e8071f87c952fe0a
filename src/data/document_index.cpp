#include "data/document_index.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <string_view>
#include <thread>

#include "base/error.hpp"
#include "data/file.hpp"
#include "data/mapped_file.hpp"

namespace mylos::data {
namespace {

constexpr std::string_view kMagic = "MYLOSDOC";
constexpr std::int64_t kHeaderBytes = 56;
constexpr std::int64_t kChunk = 1 << 21;  // tokens a thread takes at a time
constexpr std::int64_t kSpotChecks = 1024;

template <class T>
T load(std::span<const std::byte> from, std::int64_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof(T));
  return value;
}

}  // namespace

DocumentIndex parse_document_index(std::span<const std::byte> bytes, const std::string& name) {
  const std::int64_t have = std::int64_t(bytes.size());
  check(
      have >= kHeaderBytes && std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0,
      "{}: not an index of documents (it does not begin with {} and {} more bytes); remove it or run mylos data index",
      name, kMagic, kHeaderBytes - std::int64_t(kMagic.size()));
  const auto version = load<std::uint32_t>(bytes, 8);
  check(version == 1, "{}: version {} of an index of documents is not known; 1 is", name, version);
  const auto width = load<std::uint32_t>(bytes, 12);
  check(width == 2 || width == 4, "{}: tokens of {} bytes; they have 2 or 4", name, width);
  const auto tokens = load<std::uint64_t>(bytes, 16), file_bytes = load<std::uint64_t>(bytes, 24),
             end_token = load<std::uint64_t>(bytes, 32), count = load<std::uint64_t>(bytes, 40),
             reserved = load<std::uint64_t>(bytes, 48);
  check(file_bytes <= std::uint64_t(1) << 62 && tokens <= file_bytes / width,
        "{}: {} tokens of {} bytes in a file of {} bytes", name, tokens, width, file_bytes);
  check(end_token < std::uint64_t(1) << 31, "{}: end token {}; it must be below 2^31", name, end_token);
  check(reserved == 0, "{}: {} in a field that is 0 in version 1", name, reserved);
  check(count == std::uint64_t(have - kHeaderBytes) / 8 && (have - kHeaderBytes) % 8 == 0,
        "{}: its header promises {} documents, the {} bytes after it hold {}; run mylos data index again", name, count,
        have - kHeaderBytes, (have - kHeaderBytes) / 8);
  DocumentIndex index{std::int64_t(width), std::int64_t(tokens), std::int64_t(file_bytes), std::int64_t(end_token), {}};
  index.ends.resize(std::size_t(count));
  if (count > 0) std::memcpy(index.ends.data(), bytes.data() + kHeaderBytes, std::size_t(count) * 8);
  std::int64_t before = 0;
  for (std::size_t d = 0; d < index.ends.size(); ++d) {
    const std::int64_t end = index.ends[d];
    check(end > before && end <= index.tokens, "{}: document {} ends at token {}; it must be from {} to {}", name, d,
          end, before + 1, index.tokens);
    before = end;
  }
  return index;
}

std::string bytes_of(const DocumentIndex& index) {
  std::string bytes(kMagic);
  const auto add = [&](auto value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  add(std::uint32_t(1));
  add(std::uint32_t(index.width));
  for (const std::int64_t v :
       {index.tokens, index.bytes, index.end_token, std::int64_t(index.ends.size()), std::int64_t(0)})
    add(std::uint64_t(v));
  bytes.append(reinterpret_cast<const char*>(index.ends.data()), index.ends.size() * sizeof index.ends[0]);
  return bytes;
}

std::string document_index_path(const std::string& token_file) { return token_file + ".documents"; }

std::optional<DocumentIndex> read_document_index(const TokenFile& file) {
  const std::string path = document_index_path(file.path());
  std::error_code error;  // a name that cannot be looked up is a file that is not there
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  DocumentIndex index;
  {
    const MappedFile map(path, "index of documents");
    index = parse_document_index(map.bytes(), path);
  }
  check(index.width == size_of(file.dtype()) && index.tokens == file.size() && index.bytes == file.bytes(),
        "'{}' was made of a file of {} bytes with {} tokens of {} bytes, '{}' has {} bytes, {} tokens of {}: run mylos "
        "data index again, or remove it",
        path, index.bytes, index.tokens, index.width, file.path(), file.bytes(), file.size(), size_of(file.dtype()));
  const auto documents = std::int64_t(index.ends.size());
  const std::int64_t checks = std::min(documents, kSpotChecks);
  for (std::int64_t i = 0; i < checks; ++i) {
    const auto d = checks == 1 ? 0 : std::int64_t(double(i) / double(checks - 1) * double(documents - 1));
    const std::int64_t at = index.ends[std::size_t(d)] - 1;
    check(std::int64_t(file.value(at)) == index.end_token,
          "'{}' says that token {} of '{}' is the end token {}, but it is {}: run mylos data index again, or remove it",
          path, at, file.path(), index.end_token, file.value(at));
  }
  return index;
}

std::vector<std::int64_t> find_ends(const TokenFile& file, std::int64_t end_token, int threads) {
  check(threads >= 0, "{} threads; it must be at least 1, or 0 for all cores", threads);
  const std::int64_t chunks = (file.size() + kChunk - 1) / kChunk;
  std::vector<std::vector<std::int64_t>> found(static_cast<std::size_t>(chunks));
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    for (std::int64_t c; (c = next.fetch_add(1)) < chunks;) {
      const std::int64_t first = c * kChunk;
      file.find(first, std::min(kChunk, file.size() - first), end_token, found[std::size_t(c)]);
    }
  };
  const std::int64_t cores = threads > 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<void>> parts;  // an error of one thread is thrown by its get(), after the others have ended
  for (std::int64_t i = 0; i < std::min(cores, chunks); ++i) parts.push_back(std::async(std::launch::async, work));
  for (auto& part : parts) part.get();
  std::vector<std::int64_t> ends;
  std::size_t count = 0;
  for (const auto& chunk : found) count += chunk.size();
  ends.reserve(count);
  for (const auto& chunk : found)
    for (const std::int64_t at : chunk) ends.push_back(at + 1);
  return ends;
}

DocumentIndex make_document_index(const TokenFile& file, std::int64_t end_token, int threads) {
  return {size_of(file.dtype()), file.size(), file.bytes(), end_token, find_ends(file, end_token, threads)};
}

std::int64_t write_document_index(const TokenFile& file, std::int64_t end_token, int threads) {
  check(!file.indexed(), "'{}' is a Megatron data set, whose .idx says where documents end: train on it as it is",
        file.path());
  check(end_token >= 0 && end_token < std::int64_t(1) << 31, "'{}': end token {}; it must be from 0 to 2^31 - 1",
        file.path(), end_token);
  const DocumentIndex index = make_document_index(file, end_token, threads);
  write_file(document_index_path(file.path()), bytes_of(index));
  return std::int64_t(index.ends.size());
}

}  // namespace mylos::data
