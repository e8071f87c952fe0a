#include "fuzz/data_targets.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/npy.hpp"
#include "data/sidecar.hpp"
#include "data/token_file.hpp"
#include "data/tokenizer.hpp"

namespace mylos::fuzz {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void require(bool ok) {
  if (!ok) std::abort();
}

// Made once for the process and removed with it.
struct Folder {
  std::string path = (std::filesystem::temp_directory_path() / "mylos-fuzz-XXXXXX").string();
  Folder() { require(::mkdtemp(path.data()) != nullptr); }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
};

void write(const std::string& path, std::span<const std::byte> bytes) {
  std::ofstream(path, std::ios::binary) << text_of(bytes);
}

}  // namespace

void data_npy(std::span<const std::byte> input) {
  try {
    const data::NpyHeader h = data::parse_npy_header(input, std::int64_t(input.size()), "input.npy");
    require(h.count >= 0 && h.data_begin >= 10);
    require(h.data_begin + h.count * size_of(h.dtype) == std::int64_t(input.size()));
  } catch (const Error&) {
  }
}

void data_shard(std::span<const std::byte> input) {
  if (input.size() < 3) return;
  const unsigned choice = unsigned(input[0]);
  const std::size_t sidecar_bytes = std::min(std::size_t(input[1]) | std::size_t(input[2]) << 8, input.size() - 3);
  const std::span<const std::byte> sidecar = input.subspan(3, sidecar_bytes), file = input.subspan(3 + sidecar_bytes);
  static const Folder folder;
  const std::string path = folder.path + (choice & 1 ? "/input.npy" : "/input.bin");
  write(path, file);
  if (choice & 2)
    write(data::sidecar_path(path), sidecar);
  else
    std::filesystem::remove(data::sidecar_path(path));
  try {
    const std::optional<DType> stated = choice & 4 ? std::optional(choice & 8 ? DType::u32 : DType::u16) : std::nullopt;
    const data::TokenFile tokens(path, stated);
    require(tokens.size() > 0 && tokens.size() * size_of(tokens.dtype()) <= std::int64_t(file.size()));
    if (tokens.sidecar()) {
      const data::Sidecar again = data::parse_sidecar(data::write_sidecar(*tokens.sidecar()), "again");
      require(again.tokens == tokens.sidecar()->tokens && again.tokenizer == tokens.sidecar()->tokenizer);
    }
    std::vector<std::int32_t> out(std::size_t(tokens.size()));
    tokens.read(0, tokens.size(), 1000, out.data());
    for (const std::int32_t t : out) require(t >= 0 && t < 1000);
  } catch (const Error&) {
  }
}

void data_token_bytes(std::span<const std::byte> input) {
  try {
    const data::TokenBytes table = data::parse_token_bytes(text_of(input), "input.json");
    require(!table.tokens.empty() && table.end_of_text < std::int64_t(table.tokens.size()));
  } catch (const Error&) {
  }
}

}  // namespace mylos::fuzz
