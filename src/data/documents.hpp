// The documents of a corpus, in order: a file, or each line of a .jsonl file (its string under `field`); both also as .gz
// and .zst. Empty documents are left out.
//
// A document longer than piece_bytes comes in pieces, so memory stays bounded. Pieces end where GPT-2's and Llama 3's
// pre-tokenizers cut anyway (after a newline between two printing ASCII characters), so that a text has the same tokens in
// pieces as whole; only a text without such a place is cut elsewhere, between two characters. Errors name file and byte or
// line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_stream.hpp"

namespace mylos::data {

inline constexpr std::size_t kPieceBytes = std::size_t(8) << 20;  // of a document that is encoded at once
inline constexpr std::size_t kMaxLineBytes = std::size_t(1) << 28;

// Where a document begins.
struct CorpusPosition {
  std::int64_t file = 0, offset = 0, line = 0;  // offset: of the decompressed bytes; line: those before it
  std::int64_t document = 0;                    // those before it, empty ones not counted
  bool operator==(const CorpusPosition&) const = default;
};

struct TextPiece {
  std::string text;
  bool begins = true, ends = true;  // the document
  std::int64_t document = 0;        // its number
};

class DocumentReader {
 public:
  // utf8: text that is not is an Error.
  DocumentReader(std::vector<std::string> files, std::string field, bool utf8, CorpusPosition from = {},
                 std::size_t piece_bytes = kPieceBytes);

  bool next(TextPiece& piece);  // false: there is no more
  // Of the document after the last piece; means something only when that piece ended its document.
  const CorpusPosition& position() const { return position_; }
  std::int64_t bytes_read() const;  // of the files as they lie on the disk

 private:
  bool open_next();
  bool fill_text();
  bool fill_line();
  void parse_line(std::string_view line);
  void check_utf8(std::string_view text, std::int64_t offset) const;

  std::vector<std::string> files_;
  std::string field_;
  bool utf8_;
  std::size_t piece_bytes_;
  CorpusPosition position_;
  std::unique_ptr<ByteStream> stream_;
  std::int64_t bytes_before_ = 0;                         // of the files that are done
  bool lines_ = false, at_end_ = false, inside_ = false;  // inside: of a document whose pieces are given out
  std::string buffer_;                                    // read and not yet given out, from begin_ on
  std::size_t begin_ = 0;
  std::string text_;  // of the line whose pieces are given out, from text_begin_ on
  std::size_t text_begin_ = 0;
};

// Bytes of the longest beginning of `text` that is valid UTF-8.
std::size_t valid_utf8_bytes(std::string_view text);
// Reads the whole file; lines of .jsonl files are checked where they are parsed.
bool file_is_utf8(const std::string& path);
// Where to cut `text`, longer than `limit`: from 1 to limit.
std::size_t piece_end(std::string_view text, std::size_t limit);

}  // namespace mylos::data
