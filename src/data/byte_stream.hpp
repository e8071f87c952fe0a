// A file read as a stream of bytes, decompressed when its name ends in .gz (zlib) or .zst (libzstd, an option of the build).
//
// Memory is bounded whatever the file holds. Several gzip members or zstd frames in a row are one stream. A damaged or cut
// stream is an Error naming file and offset (of the compressed bytes); so is a .zst file in a build without libzstd.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace mylos::data {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  virtual std::size_t read(char* out, std::size_t count) = 0;  // fewer than count only at the end
  virtual std::int64_t consumed() const = 0;                   // bytes of the file read so far
  virtual void skip(std::int64_t count);                       // an Error when the stream is shorter
};

std::unique_ptr<ByteStream> open_stream(const std::string& path);

// "a/b.txt.gz" -> "a/b.txt"; other names as they are.
std::string_view without_compression(std::string_view path);

}  // namespace mylos::data
