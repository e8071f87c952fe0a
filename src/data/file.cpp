#include "data/file.hpp"

#include <openssl/evp.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.hpp"

namespace mylos::data {
namespace {

struct Closer {
  void operator()(std::FILE* f) const { std::fclose(f); }
};
using File = std::unique_ptr<std::FILE, Closer>;

}  // namespace

std::string read_file(const std::string& path, std::int64_t max_bytes) {
  std::error_code error;
  check(!std::filesystem::is_directory(path, error), "'{}' is a folder, not a file", path);
  const File file(std::fopen(path.c_str(), "rb"));
  check(file != nullptr, "cannot read '{}': {}", path, std::strerror(errno));
  std::string content;
  char block[1 << 16];
  while (const std::size_t got = std::fread(block, 1, sizeof block, file.get())) {
    content.append(block, got);
    check(std::int64_t(content.size()) <= max_bytes, "'{}' holds more than {} bytes, the limit for a file of its kind",
          path, max_bytes);
  }
  check(std::ferror(file.get()) == 0, "cannot read '{}': {}", path, std::strerror(errno));
  return content;
}

void write_file(const std::string& path, std::string_view content) {
  const std::string partial = path + ".partial";
  File file(std::fopen(partial.c_str(), "wb"));
  check(file != nullptr, "cannot write '{}': {}", partial, std::strerror(errno));
  const bool written = std::fwrite(content.data(), 1, content.size(), file.get()) == content.size();
  need_written(written && std::fflush(file.get()) == 0, partial);
  need_written(std::fclose(file.release()) == 0, partial);
  std::filesystem::rename(partial, path);
}

void need_written(bool ok, const std::string& path) {
  if (!ok) fail("cannot write '{}': {}", path, std::strerror(errno));
}

struct Sha256::Context {
  EVP_MD_CTX* p = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(p); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  check(context_->p != nullptr && EVP_DigestInit_ex(context_->p, EVP_sha256(), nullptr) == 1,
        "SHA-256 is not available in libcrypto");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::add(const void* bytes, std::size_t count) {
  check(EVP_DigestUpdate(context_->p, bytes, count) == 1, "SHA-256 failed in libcrypto");
}

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  check(EVP_DigestFinal_ex(context_->p, digest, &size) == 1, "SHA-256 failed in libcrypto");
  return hex_of({digest, size});
}

std::string sha256_of(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"));
  check(file != nullptr, "cannot read '{}': {}", path, std::strerror(errno));
  Sha256 sum;
  std::vector<char> block(1 << 20);
  while (const std::size_t got = std::fread(block.data(), 1, block.size(), file.get())) sum.add(block.data(), got);
  check(std::ferror(file.get()) == 0, "cannot read '{}' to its end: {}", path, std::strerror(errno));
  return sum.hex();
}

std::string hex_of(std::span<const unsigned char> bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const unsigned char b : bytes) {
    text += kDigits[b >> 4];
    text += kDigits[b & 15];
  }
  return text;
}

}  // namespace mylos::data
