// The one HDF5 store: bundles and checkpoints are written and read through it.
//
// A Writer fills `<path>.tmp-<pid>` and commit() renames it onto `path` after fsync, so a reader sees the old file or
// the new one, never a half-written one. Every dataset carries `dtype`, `units`, `description`, `sha256` (of its
// elements, little-endian, row-major) and, unless scalar or empty, a Fletcher32 checksum on each chunk. A Reader takes
// any file for hostile: links other than hard ones, types and filters that mylos does not write, and extents that the
// file cannot hold give Error before anything is allocated. libhdf5 itself may crash on a damaged file, so a Reader
// first walks the structure in a forked child (Trust::none). Paths are absolute: "/samples/steps/loss". Calls may come
// from several threads; they are serialised, as Debian's HDF5 is not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tensor/dtype.hpp"

namespace mylos::checkpoint {

// An attribute: text (at most 32 kB), an integer, a real number or a flag (stored as u8, 0 or 1).
using AttributeValue = std::variant<std::string, std::int64_t, double, bool>;
using Attributes = std::map<std::string, AttributeValue>;

struct About {
  std::string units;        // "s", "tokens", "1" for pure numbers and texts
  std::string description;  // one sentence
  Attributes more = {};     // further attributes of the dataset
};

// Fills elements [first, first + count) of a dataset (row-major) into out; called in order.
using Fill = std::function<void(std::int64_t first, std::int64_t count, void* out)>;
// Receives them.
using Drain = std::function<void(std::int64_t first, std::int64_t count, const void* in)>;

class Writer {
 public:
  explicit Writer(const std::string& path);
  ~Writer();  // without commit(): removes the temporary file, leaves `path` as it was
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  void group(const std::string& path, const Attributes& attributes = {});  // with its parents; may exist
  void attribute(const std::string& object, const std::string& name, const AttributeValue& value);
  // An empty shape is a scalar. Parents are made.
  void dataset(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape, const void* data,
               const About& about);
  // The same in slices of whole rows (first dimension), about 8 MiB each: nothing else is held in memory.
  void dataset(const std::string& path, DType dtype, const std::vector<std::int64_t>& shape, const Fill& fill,
               const About& about);
  void reals(const std::string& path, const std::vector<double>& values, const About& about);
  void real(const std::string& path, double value, const About& about);
  void integer(const std::string& path, std::int64_t value, const About& about);
  // UTF-8 of a fixed length; a NUL inside is an error.
  void text(const std::string& path, std::string_view value, const About& about);
  void texts(const std::string& path, const std::vector<std::string>& values, const About& about);

  void commit();  // the file is at `path` when it returns; nothing may be written after

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

struct DatasetInfo {
  DType dtype = DType::u8;  // of a text: u8
  bool is_text = false;
  std::int64_t text_length = 0;  // bytes of each string, padding included
  std::vector<std::int64_t> shape;
  Attributes attributes;

  std::int64_t elements() const;
  std::int64_t bytes() const;
  std::string text(const char* attribute) const;  // "" when absent or not a text
};

enum class Trust {
  none,      // walk the file in a forked child first
  isolated,  // this process is itself a child made for reading this file (see isolate.hpp), or has just written it
};

class Reader {
 public:
  explicit Reader(const std::string& path, Trust trust = Trust::none);
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  const std::string& path() const;
  bool has_group(const std::string& path) const;
  bool has_dataset(const std::string& path) const;
  std::vector<std::string> groups(const std::string& group) const;    // names of children, sorted
  std::vector<std::string> datasets(const std::string& group) const;  // the same
  Attributes attributes(const std::string& object) const;
  DatasetInfo info(const std::string& dataset) const;

  // The whole dataset; dtype and shape must be those of the file.
  void read(const std::string& dataset, DType dtype, const std::vector<std::int64_t>& shape, void* out) const;
  void read(const std::string& dataset, const Drain& drain) const;  // in slices, dtype and shape from info()
  std::vector<double> reals(const std::string& dataset) const;      // f64 of any shape
  double real(const std::string& dataset) const;
  std::int64_t integer(const std::string& dataset) const;
  std::string text(const std::string& dataset) const;
  std::vector<std::string> texts(const std::string& dataset) const;

  // Recomputes the SHA-256; throws Error when the attribute is missing or differs. Every read() does it, too.
  void verify(const std::string& dataset) const;
  // Every group and dataset, parents first, sorted; at most 200,000 objects and 16 levels.
  std::vector<std::string> walk() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

std::string hdf5_version();

}  // namespace mylos::checkpoint
