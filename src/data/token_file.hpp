// One token file, mapped read-only: raw little-endian tokens, one-dimensional .npy, an llm.c shard, or the .bin of a
// Megatron data set with its .idx. token_format.hpp says how the container is found.
//
// Opening checks size, header, index and sidecar against each other. Each reading call asks the system for the file's
// size again: a file that was cut while it is mapped gives an Error instead of SIGBUS (but for a cut in the very
// microseconds of the copy); a file that was deleted stays readable, the mapping keeps it. Tokens are checked: an Error
// names file, position and value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/mapped_file.hpp"
#include "data/megatron.hpp"
#include "data/sidecar.hpp"
#include "data/token_format.hpp"
#include "tensor/dtype.hpp"

namespace mylos::data {

// Of a run of tokens.
struct TokenScan {
  std::uint32_t largest = 0;  // 0 of none
  std::int64_t ends = 0;      // tokens that equal the one looked for
};

class TokenFile {
 public:
  // What is declared must agree with the sidecar and the headers where those exist.
  explicit TokenFile(std::string path, const TokenFormat& declared = {});

  const std::string& path() const { return path_; }
  Container container() const { return container_; }
  DType dtype() const { return layout_.dtype; }
  std::int64_t size() const { return layout_.count; }  // tokens
  std::int64_t bytes() const { return data_.size(); }  // of the file, header and all
  const std::optional<Sidecar>& sidecar() const { return sidecar_; }

  // Where documents begin, of containers that say so (indexed()). Valid while the file is open; it reads from the mapped index, so
  // ask for it anew where the index may have been cut since.
  DocumentStarts documents() const;
  bool indexed() const { return documents_.stated(); }

  // Tokens first .. first + count - 1 as i32. A token at or above `vocab` is an Error.
  void read(std::int64_t first, std::int64_t count, std::int64_t vocab, std::int32_t* out) const;
  // The same as elements of dtype `as`, u16 or u32, no narrower than the file's. This one does not ask for the file's
  // size: the caller did, by check_whole_lately(), just before.
  void copy(std::int64_t first, std::int64_t count, std::int64_t vocab, DType as, std::byte* out) const;
  void check_whole_lately() const { data_.check_whole_lately(); }
  void prefetch(std::int64_t first, std::int64_t count, std::int64_t stride) const;  // stride: a power of two
  // The same tokens looked at where they lie; `end` -1: none is counted.
  TokenScan scan(std::int64_t first, std::int64_t count, std::int64_t end) const;
  // The position of the first of them at or above `vocab`, or first + count; and a single one's value.
  std::int64_t find_outside(std::int64_t first, std::int64_t count, std::int64_t vocab) const;
  std::uint32_t value(std::int64_t position) const;
  // Adds the positions at which they are `token`, in order.
  void find(std::int64_t first, std::int64_t count, std::int64_t token, std::vector<std::int64_t>& positions) const;

 private:
  const std::byte* at(std::int64_t first, std::int64_t count) const;
  const std::byte* mapped(std::int64_t first, std::int64_t count) const;
  [[noreturn]] void outside(std::uint32_t token, std::int64_t position, std::int64_t vocab) const;

  std::string path_;
  MappedFile data_, index_;
  std::optional<Sidecar> sidecar_;
  Container container_ = Container::raw;
  TokenLayout layout_;
  std::int64_t token_bytes_ = 0;
  DocumentStarts documents_;
};

}  // namespace mylos::data
