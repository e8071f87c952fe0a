#include "data/document_index.hpp"

#include <cstring>
#include <random>

#include "data/boundaries.hpp"
#include "data/files.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::TemporaryFolder;
using test::test_seed;
using test::write_bytes;
using test::write_tokens;

std::string bytes_for(const TokenFile& file, std::int64_t end) { return bytes_of(make_document_index(file, end)); }

TEST(DocumentIndex, FindsEveryEndWithAnyNumberOfThreads) {
  TemporaryFolder folder;
  std::mt19937_64 gen(test_seed());
  std::vector<std::uint16_t> tokens(5'000'001);  // two and a half chunks
  std::vector<std::int64_t> expected;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = gen() % 300 == 0 ? 77 : std::uint16_t(gen() % 77);
    if (tokens[i] == 77) expected.push_back(std::int64_t(i) + 1);
  }
  const TokenFile narrow(write_tokens(folder / "a.bin", tokens), {DType::u16});
  const TokenFile wide(write_tokens(folder / "b.bin", std::vector<std::uint32_t>(tokens.begin(), tokens.end())),
                       {DType::u32});
  for (const int threads : {0, 1, 3}) {
    EXPECT_EQ(find_ends(narrow, 77, threads), expected);
    EXPECT_EQ(find_ends(wide, 77, threads), expected);
  }
  EXPECT_TRUE(find_ends(narrow, 65536 + 77).empty()) << "a value that the dtype cannot hold";
}

TEST(DocumentIndex, IsReadInsteadOfTheFile) {
  TemporaryFolder folder;
  const TokenFile file(write_tokens<std::uint16_t>(folder / "a.bin", {1, 9, 9, 2, 3, 9, 4}), {DType::u16});
  EXPECT_FALSE(read_document_index(file));
  EXPECT_EQ(write_document_index(file, 9), 3);
  const auto index = read_document_index(file);
  ASSERT_TRUE(index);
  EXPECT_EQ(index->ends, (std::vector<std::int64_t>{2, 3, 6}));
  const TokenSource source({folder / "*"}, {DType::u16}, 10);
  ASSERT_EQ(source.files().size(), 1u) << "an index is no token file";
  EXPECT_EQ(document_ends(source, {9}), (std::vector<std::int64_t>{2, 3, 6, 7}));
  EXPECT_EQ(document_ends(source, {4}), (std::vector<std::int64_t>{7})) << "an index of another end token is not asked";
}

TEST(DocumentIndex, OneThatDoesNotFitItsFileIsAnError) {
  TemporaryFolder folder;
  const TokenFile file(write_tokens<std::uint16_t>(folder / "a.bin", {1, 9, 9, 2, 3, 9, 4}), {DType::u16});
  const TokenFile other(write_tokens<std::uint16_t>(folder / "b.bin", {1, 9, 9, 2, 3, 9}), {DType::u16});
  const TokenFile changed(write_tokens<std::uint16_t>(folder / "c.bin", {1, 9, 2, 9, 3, 9, 4}), {DType::u16});
  write_bytes(document_index_path(other.path()), bytes_for(file, 9));
  EXPECT_HAS(error_of([&] { read_document_index(other); }), "was made of a file of 14 bytes with 7 tokens");
  write_bytes(document_index_path(changed.path()), bytes_for(file, 9));
  EXPECT_HAS(error_of([&] { read_document_index(changed); }), "says that token 2 of");
}

TEST(DocumentIndex, DamageNamesTheFileAndTheField) {
  TemporaryFolder folder;
  const TokenFile file(write_tokens<std::uint16_t>(folder / "a.bin", {1, 9, 9, 2, 3, 9, 4}), {DType::u16});
  const std::string whole = bytes_for(file, 9);
  const auto message = [&](std::string bytes) {
    return error_of([&] { parse_document_index(std::as_bytes(std::span(bytes)), "x.documents"); });
  };
  const auto with = [&](std::size_t at, std::uint64_t value, std::size_t size) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at, &value, size);
    return bytes;
  };
  EXPECT_EQ(parse_document_index(std::as_bytes(std::span(whole)), "x").ends.size(), 3u);
  for (std::size_t n = 0; n < whole.size(); ++n) EXPECT_HAS(message(whole.substr(0, n)), "x.documents");
  EXPECT_HAS(message(whole + "1"), "promises 3 documents");
  EXPECT_HAS(message(with(0, 'm', 1)), "not an index of documents");
  EXPECT_HAS(message(with(8, 2, 4)), "version 2");
  EXPECT_HAS(message(with(12, 3, 4)), "tokens of 3 bytes");
  EXPECT_HAS(message(with(16, std::uint64_t(1) << 63, 8)), "tokens of 2 bytes in a file of 14 bytes");
  EXPECT_HAS(message(with(24, ~std::uint64_t(0), 8)), "in a file of 18446744073709551615 bytes");
  EXPECT_HAS(message(with(32, std::uint64_t(1) << 31, 8)), "end token 2147483648");
  EXPECT_HAS(message(with(40, std::uint64_t(1) << 61, 8)), "promises 2305843009213693952 documents");
  EXPECT_HAS(message(with(48, 1, 8)), "a field that is 0");
  EXPECT_HAS(message(with(64, 2, 8)), "document 1 ends at token 2; it must be from 3 to 7");
  EXPECT_HAS(message(with(72, 8, 8)), "document 2 ends at token 8; it must be from 4 to 7");
}

}  // namespace
}  // namespace mylos::data
