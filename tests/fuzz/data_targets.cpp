#include "fuzz/data_targets.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "data/document_index.hpp"
#include "data/llmc.hpp"
#include "data/megatron.hpp"
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
    const data::TokenLayout h = data::parse_npy_header(input, std::int64_t(input.size()), "input.npy");
    require(h.count >= 0 && h.data_begin >= 10);
    require(h.data_begin + h.count * size_of(h.dtype) == std::int64_t(input.size()));
  } catch (const Error&) {
  }
}

void data_llmc(std::span<const std::byte> input) {
  const std::int64_t bytes = std::int64_t(input.size());
  const bool begins = data::begins_like_llmc(input, bytes);
  try {
    const data::TokenLayout l = data::parse_llmc_header(input, bytes, "input.bin");
    require(l.count >= 0 && l.data_begin == 1024 && l.data_begin + l.count * size_of(l.dtype) == bytes);
    require(begins);
  } catch (const Error&) {
    require(!begins);
  }
}

void data_megatron(std::span<const std::byte> input) {
  if (input.size() < 4) return;
  std::uint32_t data_bytes = 0;
  std::memcpy(&data_bytes, input.data(), 4);
  // Of the index's very size, so that a read past its end is seen.
  const std::vector<std::byte> index(input.begin() + 4, input.end());
  try {
    const data::MegatronIndex m = data::parse_megatron_index(index, data_bytes, "input.idx");
    require(m.layout.count * size_of(m.layout.dtype) == std::int64_t(data_bytes));
    const data::DocumentStarts& d = m.documents;
    require(d.stated() && d[0] == 0 && d[d.size()] == m.layout.count);
    for (std::int64_t i = 0; i < d.size(); ++i) require(d[i] <= d[i + 1]);
    if (m.layout.count > 0) {
      const std::int64_t last = d.document_of(m.layout.count - 1);
      require(d[last] < m.layout.count && d[last + 1] == m.layout.count);
    }
  } catch (const Error&) {
  }
}

void data_documents(std::span<const std::byte> input) {
  const std::vector<std::byte> bytes(input.begin(), input.end());  // of its very size
  try {
    const data::DocumentIndex index = data::parse_document_index(bytes, "input.documents");
    require((index.width == 2 || index.width == 4) && index.tokens >= 0 && index.end_token >= 0);
    std::int64_t before = 0;
    for (const std::int64_t end : index.ends) {
      require(end > before && end <= index.tokens);
      before = end;
    }
    require(data::bytes_of(index) == text_of(bytes));
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
    const std::optional<data::Container> container =
        choice & 16 ? std::optional(data::Container(choice >> 5 & 3)) : std::nullopt;
    const data::TokenFile tokens(path, {stated, container});
    const data::TokenScan scan = tokens.scan(0, tokens.size(), 7);
    require(scan.ends <= tokens.size());
    require((tokens.find_outside(0, tokens.size(), 1000) == tokens.size()) == (scan.largest < 1000));
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
