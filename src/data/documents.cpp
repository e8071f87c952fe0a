#include "data/documents.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text.hpp"
#include "data/json_error.hpp"

namespace mylos::data {
namespace {

constexpr std::size_t kReadBytes = std::size_t(1) << 18;

bool is_jsonl(std::string_view path) { return without_compression(path).ends_with(".jsonl"); }
bool prints(char c) { return c > ' ' && c < '\x7f'; }
bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

std::size_t append_block(ByteStream& stream, std::string& buffer, std::size_t count) {
  const std::size_t before = buffer.size();
  buffer.resize(before + count);
  const std::size_t got = stream.read(buffer.data() + before, count);
  buffer.resize(before + got);
  return got;
}

}  // namespace

std::size_t valid_utf8_bytes(std::string_view text) {
  if (is_utf8(text)) return text.size();
  // By blocks first; a block may cut a character, which the walk after it sees whole.
  constexpr std::size_t kWindow = 4096;
  std::size_t good = 0;
  while (good + kWindow <= text.size()) {
    std::size_t end = good + kWindow;
    while (end > good + kWindow - 4 && continues_character(text[end - 1])) --end;
    if (end > good && static_cast<unsigned char>(text[end - 1]) >= 0xC0) --end;
    if (!is_utf8(text.substr(good, end - good))) break;
    good = end;
  }
  for (std::size_t length = 1; length <= 4 && good + length <= text.size();) {
    if (is_utf8(text.substr(good, length))) {
      good += length;
      length = 1;
    } else {
      ++length;
    }
  }
  return good;
}

bool file_is_utf8(const std::string& path) {
  if (is_jsonl(path)) return true;
  const auto stream = open_stream(path);
  std::string buffer;
  while (append_block(*stream, buffer, kReadBytes) > 0) {
    std::size_t end = buffer.size();
    while (end > 0 && buffer.size() - end < 3 && continues_character(buffer[end - 1])) --end;
    if (end > 0 && static_cast<unsigned char>(buffer[end - 1]) >= 0xC0)
      --end;
    else
      end = buffer.size();
    if (!is_utf8(std::string_view(buffer).substr(0, end))) return false;
    buffer.erase(0, end);
  }
  return is_utf8(buffer);
}

std::size_t piece_end(std::string_view text, std::size_t limit) {
  for (std::size_t i = limit; i >= 2 && i > limit / 2; --i)
    if (text[i - 1] == '\n' && prints(text[i - 2]) && prints(text[i])) return i;
  std::size_t i = limit;
  while (i > 1 && limit - i < 4 && continues_character(text[i])) --i;
  return continues_character(text[i]) ? limit : i;
}

DocumentReader::DocumentReader(std::vector<std::string> files, std::string field, bool utf8, CorpusPosition from,
                               std::size_t piece_bytes)
    : files_(std::move(files)), field_(std::move(field)), utf8_(utf8), piece_bytes_(piece_bytes), position_(from) {
  check(piece_bytes >= 8, "pieces of {} bytes; at least 8 are needed to hold a character", piece_bytes);
  for (std::int64_t i = 0; i < std::min(from.file, std::int64_t(files_.size())); ++i)
    bytes_before_ += std::int64_t(std::filesystem::file_size(files_[std::size_t(i)]));
}

std::int64_t DocumentReader::bytes_read() const { return bytes_before_ + (stream_ ? stream_->consumed() : 0); }

bool DocumentReader::open_next() {
  if (position_.file >= std::int64_t(files_.size())) return false;
  const std::string& path = files_[std::size_t(position_.file)];
  stream_ = open_stream(path);
  stream_->skip(position_.offset);
  lines_ = is_jsonl(path);
  at_end_ = false;
  buffer_.clear();
  begin_ = 0;
  return true;
}

void DocumentReader::check_utf8(std::string_view text, std::int64_t offset) const {
  if (!utf8_ || is_utf8(text)) return;
  fail("{}: byte {} is not UTF-8; leave the file out (--skip-invalid) or use the byte tokenizer",
       files_[std::size_t(position_.file)], offset + std::int64_t(valid_utf8_bytes(text)));
}

// More than a piece of a text file, or all that is left of it.
bool DocumentReader::fill_text() {
  buffer_.erase(0, std::exchange(begin_, 0));
  while (!at_end_ && buffer_.size() <= piece_bytes_) at_end_ = append_block(*stream_, buffer_, kReadBytes) == 0;
  return !buffer_.empty();
}

// The text of the next line that holds one.
bool DocumentReader::fill_line() {
  for (;;) {
    std::size_t end, searched = begin_;
    while ((end = buffer_.find('\n', searched)) == std::string::npos && !at_end_) {
      buffer_.erase(0, std::exchange(begin_, 0));
      searched = buffer_.size();
      check(buffer_.size() <= kMaxLineBytes, "{}:{}: the line is longer than {} bytes, the most that is read",
            files_[std::size_t(position_.file)], position_.line + 1, kMaxLineBytes);
      at_end_ = append_block(*stream_, buffer_, kReadBytes) == 0;
    }
    if (end == std::string::npos) end = buffer_.size();
    if (begin_ == buffer_.size()) return false;
    const std::string_view line = std::string_view(buffer_).substr(begin_, end - begin_);
    const std::size_t used = std::min(end + 1, buffer_.size()) - begin_;
    parse_line(line);
    position_.line += 1;
    position_.offset += std::int64_t(used);
    begin_ += used;
    if (!text_.empty()) return true;
  }
}

void DocumentReader::parse_line(std::string_view line) {
  text_.clear();
  text_begin_ = 0;
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const std::string& path = files_[std::size_t(position_.file)];
  const std::int64_t number = position_.line + 1;
  auto json = nlohmann::json::parse(line, nullptr, false);
  if (json.is_discarded()) fail("{}:{}: {}; mend the line or take it out", path, number, why_not_json(line));
  check(json.is_object(), "{}:{}: not a JSON object", path, number);
  const auto text = json.find(field_);
  check(text != json.end() && text->is_string(), "{}:{}: no text under \"{}\"; name the field with --jsonl-field", path,
        number, field_);
  text_ = std::move(text->get_ref<std::string&>());
}

bool DocumentReader::next(TextPiece& piece) {
  for (;;) {
    if (!stream_ && !open_next()) return false;
    const bool more = lines_ ? text_begin_ < text_.size() || fill_line() : fill_text();
    if (more) break;
    bytes_before_ += stream_->consumed();
    stream_.reset();
    position_ = {position_.file + 1, 0, 0, position_.document};
  }
  const std::string_view left = lines_ ? std::string_view(text_).substr(text_begin_) : std::string_view(buffer_);
  piece.begins = !inside_;
  const std::size_t size = left.size() > piece_bytes_ ? piece_end(left, piece_bytes_) : left.size();
  piece.text.assign(left.substr(0, size));
  piece.ends = size == left.size();
  piece.document = position_.document;
  inside_ = !piece.ends;
  if (lines_) {
    text_begin_ += size;
  } else {
    check_utf8(piece.text, position_.offset);
    position_.offset += std::int64_t(size);
    begin_ = size;
  }
  if (piece.ends) {
    position_.document += 1;
    if (!lines_) {
      bytes_before_ += stream_->consumed();
      stream_.reset();
      position_ = {position_.file + 1, 0, 0, position_.document};
    }
  }
  return true;
}

}  // namespace mylos::data
