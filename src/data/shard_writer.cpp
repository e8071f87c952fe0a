#include "data/shard_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "data/document_index.hpp"

namespace mylos::data {
namespace fs = std::filesystem;

std::string shard_name(std::string_view stem, std::size_t shard) { return fmt::format("{}-{:05}.bin", stem, shard); }

ShardWriter::ShardWriter(std::string folder, std::string stem, const Sidecar& about, std::int64_t shard_tokens,
                         const ShardState& from)
    : folder_(std::move(folder)),
      stem_(std::move(stem)),
      about_(about),
      shard_tokens_(shard_tokens),
      closed_(from.closed) {
  for (std::size_t i = 0; i < closed_.size(); ++i) {
    std::error_code error;
    std::string path = path_of(i) + ".partial";
    if (!fs::exists(path, error)) path = path_of(i);
    const auto bytes = std::int64_t(fs::file_size(path, error));
    check(!error && bytes == closed_[i].tokens * size_of(about.dtype),
          "'{}' is missing or not as it was left: remove the folder '{}' and begin again", path, folder_);
    tokens_ += closed_[i].tokens;
    documents_ += closed_[i].documents;
    text_bytes_ += closed_[i].text_bytes;
  }
  if (!from.open) return;
  open_shard(*from.open);
  tokens_ += shard_.tokens;
  documents_ += shard_.documents;
  text_bytes_ += shard_.text_bytes;
}

ShardWriter::~ShardWriter() {
  const std::size_t count = closed_.size() + (file_ ? 1 : 0);
  if (file_) std::fclose(file_);
  if (keep_) return;
  std::error_code ignored;
  for (std::size_t i = 0; i < count; ++i) fs::remove(path_of(i) + ".partial", ignored);
}

std::string ShardWriter::path_of(std::size_t shard) const {
  return (fs::path(folder_) / shard_name(stem_, shard)).string();
}

// from.tokens of it are there already when it is a shard to go on with.
void ShardWriter::open_shard(const Sidecar& from) {
  shard_ = about_;
  shard_.tokens = std::max<std::int64_t>(from.tokens, 0);
  shard_.documents = std::max<std::int64_t>(from.documents, 0);
  shard_.text_bytes = std::max<std::int64_t>(from.text_bytes, 0);
  const std::string path = path_of(closed_.size()) + ".partial";
  file_ = std::fopen(path.c_str(), shard_.tokens > 0 ? "r+b" : "wb");
  check(file_ != nullptr, "cannot write '{}': {}", path, std::strerror(errno));
  sum_.emplace();
  std::int64_t left = shard_.tokens * size_of(about_.dtype);
  char block[1 << 16];
  while (left > 0) {
    const std::size_t got = std::fread(block, 1, std::size_t(std::min<std::int64_t>(left, sizeof block)), file_);
    check(got > 0, "'{}' is shorter than it was left: remove the folder '{}' and begin again", path, folder_);
    sum_->add(block, got);
    left -= std::int64_t(got);
  }
  if (shard_.tokens == 0) return;
  const off_t end = off_t(shard_.tokens * size_of(about_.dtype));
  need_written(::ftruncate(::fileno(file_), end) == 0 && ::fseeko(file_, end, SEEK_SET) == 0, path);
}

void ShardWriter::close_shard() {
  const std::string path = path_of(closed_.size()) + ".partial";
  need_written(std::fflush(file_) == 0 && ::fdatasync(::fileno(file_)) == 0, path);
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  shard_.sha256 = sum_->hex();
  closed_.push_back(shard_);
  need_written(closed, path);
}

template <class T>
void ShardWriter::write(std::span<const std::uint32_t> tokens) {
  T block[4096];
  for (std::size_t begin = 0; begin < tokens.size(); begin += std::size(block)) {
    const std::size_t count = std::min(tokens.size() - begin, std::size(block));
    for (std::size_t i = 0; i < count; ++i) block[i] = T(tokens[begin + i]);
    need_written(std::fwrite(block, sizeof(T), count, file_) == count, path_of(closed_.size()) + ".partial");
    sum_->add(block, count * sizeof(T));
  }
  shard_.tokens += std::int64_t(tokens.size());
  tokens_ += std::int64_t(tokens.size());
}

void ShardWriter::add(std::span<const std::uint32_t> tokens, std::int64_t text_bytes, bool ends) {
  if (!file_) open_shard({});
  const auto put = [&](std::span<const std::uint32_t> some) {
    about_.dtype == DType::u16 ? write<std::uint16_t>(some) : write<std::uint32_t>(some);
  };
  put(tokens);
  shard_.text_bytes += text_bytes;
  text_bytes_ += text_bytes;
  if (!ends) return;
  const auto end = std::uint32_t(about_.end_of_text);
  put({&end, 1});
  shard_.documents += 1;
  documents_ += 1;
  if (shard_.tokens >= shard_tokens_) close_shard();
}

ShardState ShardWriter::sync() {
  ShardState state{closed_, std::nullopt};
  if (!file_) return state;
  need_written(std::fflush(file_) == 0 && ::fdatasync(::fileno(file_)) == 0, path_of(closed_.size()) + ".partial");
  state.open = shard_;
  return state;
}

ShardState ShardWriter::close() {
  if (file_) close_shard();
  return {closed_, std::nullopt};
}

std::vector<std::string> ShardWriter::finish() {
  close();
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < closed_.size(); ++i) {
    paths.push_back(path_of(i));
    // The sidecar first: a shard never stands there without one.
    write_file(sidecar_path(paths[i]), write_sidecar(closed_[i]));
    if (fs::exists(paths[i] + ".partial")) fs::rename(paths[i] + ".partial", paths[i]);
    write_document_index(TokenFile(paths[i]), about_.end_of_text);
  }
  keep_ = true;
  return paths;
}

}  // namespace mylos::data
