// How tokens lie in a file: the container, declared or recorded and never guessed from the content.
//
// The container is what the caller declares (data.format, --format); else what the sidecar's "container" says; else
// .npy by its name; else Megatron when an index <stem>.idx lies beside <stem>.bin; else raw. Declaration, sidecar and
// the name .npy must agree, an Error names the two that do not. A file taken for raw only because nothing else is said,
// which begins as an llm.c shard does, is an Error too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "data/sidecar.hpp"
#include "tensor/dtype.hpp"

namespace mylos::data {

// What a caller declares about token files; what is left open must be recorded.
struct TokenFormat {
  std::optional<DType> dtype = {};  // u16 or u32
  std::optional<Container> container = {};
};

// Tokens are elements of a file, one after the other from data_begin (bytes) on.
struct TokenLayout {
  DType dtype = DType::u16;  // u16 or u32
  std::int64_t data_begin = 0;
  std::int64_t count = 0;
};

// `bytes` is the file, or at least its first 1024 bytes.
Container container_of(const std::string& path, std::span<const std::byte> bytes, std::int64_t file_bytes,
                       const std::optional<Container>& declared, const std::optional<Sidecar>& sidecar);
TokenLayout raw_layout(DType dtype, std::int64_t file_bytes, const std::string& name);

}  // namespace mylos::data
