#include "data/documents.hpp"

#include <zlib.h>
#if defined(MYLOS_ZSTD)
#include <zstd.h>
#endif

#include <nlohmann/json.hpp>
#include <random>

#include "base/text.hpp"
#include "data/files.hpp"
#include "data/texts.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::random_text;
using test::TemporaryFolder;
using test::write_bytes;

std::string gzip(const std::string& text) {
  z_stream z{};
  deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = uInt(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = uInt(out.size());
  deflate(&z, Z_FINISH);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

std::vector<std::string> read_all(DocumentReader& reader) {
  std::vector<std::string> all;
  TextPiece piece;
  for (bool whole = true; reader.next(piece); whole = piece.ends) {
    if (whole) all.emplace_back();
    EXPECT_EQ(piece.document, std::int64_t(all.size()) - 1);
    all.back() += piece.text;
  }
  return all;
}

std::string stream_text(const std::string& path) {
  const auto stream = open_stream(path);
  std::string all, block(1000, '\0');
  while (const std::size_t n = stream->read(block.data(), block.size())) all.append(block, 0, n);
  return all;
}

// Compressible, and longer than every buffer on the way.
std::string long_text() {
  std::mt19937_64 gen(test::test_seed());
  std::string text;
  while (text.size() < 700'000) text += random_text(gen, true);
  return text;
}

TEST(ByteStream, GzipComesBackAndMembersFollowEachOther) {
  TemporaryFolder folder;
  const std::string text = long_text();
  EXPECT_EQ(stream_text(write_bytes(folder / "a.gz", gzip(text) + gzip("more"))), text + "more");
  EXPECT_EQ(stream_text(write_bytes(folder / "b.gz", "")), "");
}

TEST(ByteStream, DamagedGzipIsAnErrorWithItsPlace) {
  TemporaryFolder folder;
  const std::string whole = gzip(long_text());
  const auto message = [&](const std::string& bytes) {
    return error_of([&] { stream_text(write_bytes(folder / "bad.gz", bytes)); });
  };
  EXPECT_HAS(message(whole.substr(0, whole.size() / 2)),
             fmt::format("bad.gz' is damaged at byte {}: it ends in the middle", whole.size() / 2));
  EXPECT_HAS(message("no gzip at all"), "damaged at byte");
  std::string flipped = whole;
  flipped[whole.size() - 6] ^= 1;  // in the checksum
  EXPECT_HAS(message(flipped), "incorrect data check");
}

TEST(ByteStream, ZstdComesBackOrSaysWhatIsMissing) {
  TemporaryFolder folder;
#if defined(MYLOS_ZSTD)
  const auto zstd = [](const std::string& text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
    return out;
  };
  const std::string text = long_text(), whole = zstd(text);
  EXPECT_EQ(stream_text(write_bytes(folder / "a.zst", whole + zstd("more"))), text + "more");
  EXPECT_HAS(error_of([&] { stream_text(write_bytes(folder / "b.zst", whole.substr(0, whole.size() - 9))); }),
             "it ends in the middle");
  EXPECT_HAS(error_of([&] { stream_text(write_bytes(folder / "c.zst", "none of that")); }), "damaged at byte 0");
#else
  EXPECT_HAS(error_of([&] { stream_text(write_bytes(folder / "a.zst", "")); }), "libzstd-dev");
#endif
}

TEST(Documents, ComeInPiecesAndFromAnyPlace) {
  TemporaryFolder folder;
  std::mt19937_64 gen(test::test_seed() + 1);
  std::vector<std::string> files, documents;
  for (int f = 0; f < 6; ++f) {
    std::string content;
    if (f % 2) {
      documents.push_back(content = random_text(gen, true) + random_text(gen, true));
    } else {
      for (int i = 0; i < 5; ++i) {
        documents.push_back(random_text(gen, true));
        content += nlohmann::json{{"text", documents.back()}}.dump() + (i % 2 ? "\n" : "\n\n{\"text\": \"\"}\n");
      }
      if (f) content.pop_back();  // a last line needs no end
    }
    const bool packed = f >= 3;
    files.push_back(write_bytes(folder / fmt::format("{}.{}{}", f, f % 2 ? "txt" : "jsonl", packed ? ".gz" : ""),
                                packed ? gzip(content) : content));
  }
  for (const std::size_t piece_bytes : {8, 50, 1 << 20}) {
    DocumentReader reader(files, "text", true, {}, piece_bytes);
    EXPECT_EQ(read_all(reader), documents);
    std::int64_t bytes = 0;
    for (const std::string& f : files) bytes += std::int64_t(std::filesystem::file_size(f));
    EXPECT_EQ(reader.bytes_read(), bytes);
  }
  DocumentReader reader(files, "text", true, {}, 16);
  TextPiece piece;
  std::vector<std::string> before(1);
  while (reader.next(piece)) {
    EXPECT_LE(piece.text.size(), 16u);
    EXPECT_TRUE(is_utf8(piece.text));
    if (!piece.ends) continue;
    DocumentReader other(files, "text", true, reader.position());
    const std::vector<std::string> rest(documents.begin() + piece.document + 1, documents.end());
    std::vector<std::string> got;
    for (TextPiece p; other.next(p);) got.push_back(p.text);
    EXPECT_EQ(got, rest);
  }
}

TEST(Documents, LongTextIsCutWhereTokenizersCut) {
  EXPECT_EQ(piece_end("one two\nthree four", 12), 8u);
  EXPECT_EQ(piece_end("one two\n three four", 12), 12u);  // the newline belongs to the space
  EXPECT_EQ(piece_end("aaaa\xc3\xa9zzz", 5), 4u);
  EXPECT_EQ(piece_end(std::string(20, '\x80'), 10), 10u);
}

TEST(Documents, FaultsAreNamedWithTheirPlace) {
  TemporaryFolder folder;
  const auto message = [&](const std::string& name, const std::string& content) {
    return error_of([&] {
      DocumentReader reader({write_bytes(folder / name, content)}, "text", true, {}, 64);
      read_all(reader);
    });
  };
  for (const std::size_t at : {0, 5, 63, 64, 65, 300, 9000})
    EXPECT_HAS(message("a.txt", std::string(at, 'x') + "\xff tail"), fmt::format("a.txt: byte {} is not UTF-8", at));
  EXPECT_HAS(message("a.txt", "cut \xc3"), "byte 4 ");
  EXPECT_HAS(message("a.jsonl", "{\"text\": \"ok\"}\n\n[]\n"), "a.jsonl:3: not a JSON object");
  // Half of a pair has no UTF-8.
  EXPECT_HAS(message("a.jsonl", "{\"text\": \"\\ud800\"}"), "a.jsonl:1: not JSON (byte 17: invalid string: surrogate");
  EXPECT_HAS(message("a.jsonl", "\n{\"text\": \"\xff\"}"),
             "a.jsonl:2: not JSON (byte 11: invalid string: ill-formed UTF-8");
  EXPECT_HAS(message("a.jsonl", std::string(100'000, '[')), "a.jsonl:1");
  for (const std::string& good : {std::string("\xc3\xa9"), std::string(1 << 18, 'x') + "\xf0\x9f\x8c\xbe",
                                  std::string((1 << 18) - 2, 'x') + "\xf0\x9f\x8c\xbe!"}) {
    EXPECT_TRUE(file_is_utf8(write_bytes(folder / "b.txt", good)));
    EXPECT_FALSE(file_is_utf8(write_bytes(folder / "b.txt", good + "\x80")));
    EXPECT_EQ(valid_utf8_bytes(good + "\x80"), good.size());
  }
}

}  // namespace
}  // namespace mylos::data
