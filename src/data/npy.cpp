#include "data/npy.hpp"

#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.hpp"

namespace mylos::data {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
// NumPy itself refuses longer headers by default (numpy.lib.format, max_header_size).
constexpr std::int64_t kMaxHeader = 10000;

// The header is a Python dictionary literal with three keys, whose values are a string, True or False, and a tuple of
// whole numbers. This reads that much of Python and nothing more.
class Literal {
 public:
  Literal(std::string_view text, const std::string& name) : text_(text), name_(name) {}

  void space() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t' || text_[0] == '\r'))
      text_.remove_prefix(1);
  }
  bool take(std::string_view word) {
    space();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  void expect(std::string_view word) {
    check(take(word), "{}: the .npy header is damaged: expected '{}'", name_, word);
  }
  std::string_view string() {
    space();
    check(!text_.empty() && (text_[0] == '\'' || text_[0] == '"'), "{}: the .npy header is damaged: expected a string",
          name_);
    const std::size_t end = text_.find(text_[0], 1);
    check(end != std::string_view::npos, "{}: the .npy header is damaged: a string has no end", name_);
    const std::string_view s = text_.substr(1, end - 1);
    check(s.find('\\') == std::string_view::npos, "{}: the .npy header is damaged: an escape in a string", name_);
    text_.remove_prefix(end + 1);
    return s;
  }
  std::int64_t number() {
    space();
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), n);
    check(error == std::errc() && n >= 0,
          "{}: the .npy header is damaged: its shape is not made of numbers from 0 to 2^63 - 1", name_);
    text_.remove_prefix(std::size_t(end - text_.data()));
    take("L");  // written by Python 2
    return n;
  }
  bool empty() {
    space();
    return text_.empty();
  }

 private:
  std::string_view text_;
  const std::string& name_;
};

struct Fields {
  std::optional<std::string_view> descr;
  std::optional<bool> fortran;
  std::optional<std::int64_t> dimensions;
  std::int64_t count = 0;  // of a single dimension
};

Fields parse_fields(std::string_view text, const std::string& name) {
  Fields f;
  Literal in(text, name);
  in.expect("{");
  while (!in.take("}")) {
    const std::string_view key = in.string();
    in.expect(":");
    if (key == "descr" && !f.descr) {
      check(!in.take("["), "{}: a structured .npy array; token files are one-dimensional u16 or u32", name);
      f.descr = in.string();
    } else if (key == "fortran_order" && !f.fortran) {
      f.fortran = in.take("True");
      if (!*f.fortran) in.expect("False");
    } else if (key == "shape" && !f.dimensions) {
      f.dimensions = 0;
      in.expect("(");
      while (!in.take(")")) {
        f.count = in.number();
        ++*f.dimensions;
        if (in.take(")")) break;
        in.expect(",");
      }
    } else {
      fail("{}: the .npy header is damaged: key '{}' is unknown or stands there twice", name, key);
    }
    if (in.take("}")) break;
    in.expect(",");
  }
  check(in.empty(), "{}: the .npy header is damaged: text after its dictionary", name);
  return f;
}

}  // namespace

TokenLayout parse_npy_header(std::span<const std::byte> bytes, std::int64_t file_bytes, const std::string& name) {
  const std::int64_t have = std::min(std::int64_t(bytes.size()), file_bytes);
  const auto byte_at = [&](std::int64_t i) { return std::int64_t(bytes[std::size_t(i)]); };
  check(have >= 10, "{}: {} bytes are too few for a .npy file", name, have);
  check(std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) == 0,
        "{}: not a .npy file (its first bytes are not \\x93NUMPY)", name);
  const std::int64_t version = byte_at(6);
  check(version >= 1 && version <= 3 && byte_at(7) == 0, "{}: .npy format {}.{} is not known; 1.0, 2.0 and 3.0 are",
        name, version, byte_at(7));
  const std::int64_t begin = version == 1 ? 10 : 12;
  check(have >= begin, "{}: {} bytes are too few for a .npy file", name, have);
  std::int64_t length = byte_at(8) | byte_at(9) << 8;
  if (version > 1) length |= byte_at(10) << 16 | byte_at(11) << 24;
  check(length <= kMaxHeader, "{}: a .npy header of {} bytes; NumPy writes at most {}", name, length, kMaxHeader);
  check(begin + length <= have, "{}: cut off: the .npy header ends at byte {}, the file at {}", name, begin + length,
        have);

  const Fields f = parse_fields({reinterpret_cast<const char*>(bytes.data()) + begin, std::size_t(length)}, name);
  check(f.descr && f.fortran && f.dimensions, "{}: the .npy header lacks one of descr, fortran_order and shape", name);
  check(*f.descr == "<u2" || *f.descr == "<u4",
        "{}: dtype '{}'; token files are '<u2' (u16) or '<u4' (u32): convert with numpy's astype", name, *f.descr);
  check(*f.dimensions == 1, "{}: {} dimensions; a token file has one: flatten it with numpy's reshape(-1)", name,
        *f.dimensions);

  const TokenLayout header{*f.descr == "<u2" ? DType::u16 : DType::u32, begin + length, f.count};
  const std::int64_t room = (file_bytes - header.data_begin) / size_of(header.dtype);
  check(header.count <= room, "{}: cut off: its header says {} tokens, the file has room for {}", name, header.count,
        room);
  check(header.data_begin + header.count * size_of(header.dtype) == file_bytes,
        "{}: {} bytes after the {} tokens of its header", name,
        file_bytes - header.data_begin - header.count * size_of(header.dtype), header.count);
  return header;
}

}  // namespace mylos::data
