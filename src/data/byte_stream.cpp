#include "data/byte_stream.hpp"

#include <zlib.h>
#if defined(MYLOS_ZSTD)
#include <zstd.h>
#endif

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.hpp"

namespace mylos::data {
namespace {

constexpr std::size_t kBlock = 1 << 16;

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(const std::string& path) : path_(path) {
    std::error_code error;
    check(!std::filesystem::is_directory(path, error), "'{}' is a folder, not a file", path);
    file_ = std::fopen(path.c_str(), "rb");
    check(file_ != nullptr, "cannot read '{}': {}", path, std::strerror(errno));
  }
  ~PlainStream() override { std::fclose(file_); }
  PlainStream(const PlainStream&) = delete;
  PlainStream& operator=(const PlainStream&) = delete;

  std::size_t read(char* out, std::size_t count) override {
    const std::size_t got = std::fread(out, 1, count, file_);
    check(got == count || !std::ferror(file_), "cannot read '{}' at byte {}: {}", path_, consumed_,
          std::strerror(errno));
    consumed_ += std::int64_t(got);
    return got;
  }
  std::int64_t consumed() const override { return consumed_; }
  void skip(std::int64_t count) override {
    if (::fseeko(file_, off_t(count), SEEK_CUR) != 0) return ByteStream::skip(count);
    consumed_ += count;
  }

 private:
  std::string path_;
  std::FILE* file_;
  std::int64_t consumed_ = 0;
};

// What gzip and zstd share: a block of compressed bytes that is filled again when it is used up.
class CompressedStream : public ByteStream {
 public:
  explicit CompressedStream(const std::string& path) : path_(path), file_(path), block_(kBlock) {}
  std::int64_t consumed() const override { return file_.consumed() - std::int64_t(end_ - begin_); }

 protected:
  bool fill() {
    if (begin_ < end_) return true;
    begin_ = 0;
    end_ = file_.read(block_.data(), block_.size());
    return end_ > 0;
  }
  [[noreturn]] void damaged(const char* why) const {
    fail("'{}' is damaged at byte {}: {}; fetch it again or leave it out", path_, consumed(), why);
  }

  std::string path_;
  PlainStream file_;
  std::vector<char> block_;
  std::size_t begin_ = 0, end_ = 0;
  bool inside_ = false;  // a member or frame has begun and not ended
};

class GzipStream final : public CompressedStream {
 public:
  explicit GzipStream(const std::string& path) : CompressedStream(path) {
    constexpr int kGzipOnly = 15 + 16;
    check(inflateInit2(&state_, kGzipOnly) == Z_OK, "zlib has no memory to read '{}'", path);
  }
  ~GzipStream() override { inflateEnd(&state_); }

  std::size_t read(char* out, std::size_t count) override {
    std::size_t done = 0;
    while (done < count) {
      if (!fill()) {
        if (inside_) damaged("it ends in the middle of a gzip stream");
        break;
      }
      inside_ = true;
      const std::size_t room = std::min(count - done, std::size_t(1) << 30);
      state_.next_in = reinterpret_cast<Bytef*>(block_.data() + begin_);
      state_.avail_in = uInt(end_ - begin_);
      state_.next_out = reinterpret_cast<Bytef*>(out + done);
      state_.avail_out = uInt(room);
      const int status = inflate(&state_, Z_NO_FLUSH);
      begin_ = end_ - state_.avail_in;
      done += room - state_.avail_out;
      if (status == Z_STREAM_END) {
        inside_ = false;
        inflateReset(&state_);
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        damaged(state_.msg ? state_.msg : "zlib cannot read on");
      }
    }
    return done;
  }

 private:
  z_stream state_{};
};

#if defined(MYLOS_ZSTD)
class ZstdStream final : public CompressedStream {
 public:
  explicit ZstdStream(const std::string& path) : CompressedStream(path), state_(ZSTD_createDStream()) {
    check(state_ != nullptr, "zstd has no memory to read '{}'", path);
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  std::size_t read(char* out, std::size_t count) override {
    std::size_t done = 0;
    while (done < count) {
      // Output that did not fit waits inside the decoder, also when the file has been read to its end.
      const bool more = fill();
      if (!more && !held_back_) {
        if (inside_) damaged("it ends in the middle of a zstd frame");
        break;
      }
      ZSTD_inBuffer in{block_.data() + begin_, end_ - begin_, 0};
      ZSTD_outBuffer to{out + done, count - done, 0};
      const std::size_t status = ZSTD_decompressStream(state_, &to, &in);
      begin_ += in.pos;
      done += to.pos;
      if (ZSTD_isError(status)) damaged(ZSTD_getErrorName(status));
      inside_ = status != 0;
      held_back_ = inside_ && to.pos == to.size;
    }
    return done;
  }

 private:
  ZSTD_DStream* state_;
  bool held_back_ = false;
};
#endif

}  // namespace

void ByteStream::skip(std::int64_t count) {
  std::vector<char> block(kBlock);
  while (count > 0) {
    const std::size_t got = read(block.data(), std::size_t(std::min<std::int64_t>(count, kBlock)));
    check(got > 0, "an input has become shorter: {} bytes before the place to read on from are missing", count);
    count -= std::int64_t(got);
  }
}

std::unique_ptr<ByteStream> open_stream(const std::string& path) {
  if (path.ends_with(".gz")) return std::make_unique<GzipStream>(path);
  if (path.ends_with(".zst")) {
#if defined(MYLOS_ZSTD)
    return std::make_unique<ZstdStream>(path);
#else
    fail(
        "'{}' is compressed with zstd, which this build does not read: install libzstd-dev and configure again with "
        "-Dzstd=enabled, or decompress the file",
        path);
#endif
  }
  return std::make_unique<PlainStream>(path);
}

std::string_view without_compression(std::string_view path) {
  for (const std::string_view suffix : {".gz", ".zst"})
    if (path.ends_with(suffix)) return path.substr(0, path.size() - suffix.size());
  return path;
}

}  // namespace mylos::data
