#include "data/shard_writer.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace mylos::data {

ShardWriter::ShardWriter(std::string folder, std::string stem, const Sidecar& about, std::int64_t shard_tokens)
    : folder_(std::move(folder)), stem_(std::move(stem)), about_(about), shard_tokens_(shard_tokens) {
  check(about.dtype == DType::u16, "this writer makes u16 shards, not {}", name_of(about.dtype));
}

ShardWriter::~ShardWriter() {
  if (file_) std::fclose(file_);
  std::error_code ignored;
  for (const std::string& path : paths_) std::filesystem::remove(path + ".partial", ignored);
}

void ShardWriter::open_shard() {
  paths_.push_back((std::filesystem::path(folder_) / fmt::format("{}-{:05}.bin", stem_, paths_.size())).string());
  file_ = std::fopen((paths_.back() + ".partial").c_str(), "wb");
  check(file_ != nullptr, "cannot write '{}': {}", paths_.back(), std::strerror(errno));
  sum_.emplace();
  shard_ = about_;
  shard_.tokens = shard_.documents = shard_.text_bytes = 0;
}

void ShardWriter::close_shard() {
  const bool closed = std::fclose(std::exchange(file_, nullptr)) == 0;
  check(closed, "cannot write '{}': {}", paths_.back(), std::strerror(errno));
  shard_.sha256 = sum_->hex();
  sidecars_.push_back(shard_);
}

void ShardWriter::add(std::span<const std::uint16_t> tokens, std::int64_t text_bytes) {
  if (!file_) open_shard();
  check(std::fwrite(tokens.data(), 2, tokens.size(), file_) == tokens.size(), "cannot write '{}': {}", paths_.back(),
        std::strerror(errno));
  sum_->add(tokens.data(), tokens.size_bytes());
  shard_.tokens += std::int64_t(tokens.size());
  shard_.documents += 1;
  shard_.text_bytes += text_bytes;
  tokens_ += std::int64_t(tokens.size());
  documents_ += 1;
  text_bytes_ += text_bytes;
  if (shard_.tokens >= shard_tokens_) close_shard();
}

std::vector<std::string> ShardWriter::finish() {
  if (file_) close_shard();
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    // The sidecar first: a shard never stands there without one.
    write_file(sidecar_path(paths_[i]), write_sidecar(sidecars_[i]));
    std::filesystem::rename(paths_[i] + ".partial", paths_[i]);
  }
  return std::exchange(paths_, {});
}

}  // namespace mylos::data
