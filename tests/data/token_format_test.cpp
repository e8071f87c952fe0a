#include "data/token_format.hpp"

#include <numeric>

#include "data/files.hpp"
#include "data/token_formats.hpp"
#include "data/token_source.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::llmc;
using test::MegatronBytes;
using test::TemporaryFolder;
using test::write_bytes;
using test::write_tokens;

std::vector<std::int32_t> tokens_of(const TokenFile& file) {
  std::vector<std::int32_t> out(std::size_t(file.size()));
  file.read(0, file.size(), 1000, out.data());
  return out;
}

TEST(TokenFormat, LlmcBothWidths) {
  TemporaryFolder folder;
  const TokenFormat declared{.container = Container::llmc};
  const TokenFile a(write_bytes(folder / "a.bin", llmc<std::uint16_t>({5, 6, 7})), declared);
  const TokenFile b(write_bytes(folder / "b.bin", llmc<std::uint32_t>({8, 9})), declared);
  EXPECT_EQ(a.dtype(), DType::u16);
  EXPECT_EQ(b.dtype(), DType::u32);
  EXPECT_EQ(a.container(), Container::llmc);
  EXPECT_EQ(tokens_of(a), (std::vector<std::int32_t>{5, 6, 7}));
  EXPECT_EQ(tokens_of(b), (std::vector<std::int32_t>{8, 9}));
  EXPECT_FALSE(a.documents().stated());
  EXPECT_HAS(error_of([&] { TokenFile(folder / "a.bin", {DType::u32, Container::llmc}); }), "its header says u16");
}

TEST(TokenFormat, EveryBoundOfAnLlmcHeader) {
  TemporaryFolder folder;
  const auto refused = [&](std::string bytes) {
    return error_of([&] { TokenFile(write_bytes(folder / "a.bin", bytes), {.container = Container::llmc}); });
  };
  const std::string good = llmc<std::uint16_t>({5, 6, 7});
  EXPECT_HAS(refused(good.substr(0, 1023)), "1023 bytes are too few");
  EXPECT_HAS(refused(good + "x"), "1 bytes after the 3 tokens");
  EXPECT_HAS(refused(good.substr(0, good.size() - 1)), "says 3 tokens, the file has room for 2");
  const auto with = [&](std::size_t word, std::int32_t value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + 4 * word, &value, 4);
    return bytes;
  };
  EXPECT_HAS(refused(with(0, 20240521)), "it begins with 20240521");
  EXPECT_HAS(refused(with(1, 7)), "version 7 of an llm.c shard with magic 20240520 is not known; 1 is");
  EXPECT_HAS(refused(with(0, 20240801)), "version 1 of an llm.c shard with magic 20240801 is not known; 7 is");
  EXPECT_HAS(refused(with(2, -1)), "says -1 tokens");
  EXPECT_HAS(refused(with(2, 0x7fffffff)), "room for 3");
  EXPECT_HAS(refused(llmc<std::uint16_t>({})), "holds no tokens");
}

TEST(TokenFormat, MegatronWithItsDocuments) {
  TemporaryFolder folder;
  // Documents of sequences {0, 1}, {}, {2}, {}: the empty ones begin where the next token is.
  const MegatronBytes<std::uint16_t> set{
      .tokens = {1, 2, 3, 4, 5, 6}, .sizes = {2, 1, 3}, .documents = {0, 2, 2, 3, 3}};
  const std::string path = set.write(folder / "a");
  const TokenFile file(path);
  EXPECT_EQ(file.container(), Container::megatron);
  EXPECT_EQ(file.dtype(), DType::u16);
  EXPECT_EQ(tokens_of(file), (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}));
  const DocumentStarts documents = file.documents();
  ASSERT_TRUE(documents.stated());
  ASSERT_EQ(documents.size(), 4);
  std::vector<std::int64_t> starts;
  for (std::int64_t d = 0; d <= 4; ++d) starts.push_back(documents[d]);
  EXPECT_EQ(starts, (std::vector<std::int64_t>{0, 3, 3, 6, 6}));
  for (std::int64_t t = 0; t < 3; ++t) EXPECT_EQ(documents.document_of(t), 0);
  for (std::int64_t t = 3; t < 6; ++t) EXPECT_EQ(documents.document_of(t), 2);

  const MegatronBytes<std::int32_t> wide{.tokens = {7, -1}, .sizes = {2}, .documents = {0, 1}};
  const TokenFile b(wide.write(folder / "b"), {.container = Container::megatron});
  EXPECT_EQ(b.dtype(), DType::u32);
  EXPECT_EQ(b.value(0), 7u);
  EXPECT_HAS(error_of([&] { tokens_of(b); }), "token 4294967295 at position 1");
}

TEST(TokenFormat, EveryBoundOfAMegatronIndex) {
  TemporaryFolder folder;
  using Set = MegatronBytes<std::uint16_t>;
  const Set good{.tokens = {1, 2, 3, 4}, .sizes = {1, 3}, .documents = {0, 1, 2}};
  const auto refused = [&](
                           const Set& set, const std::function<void(std::string&)>& damage = [](std::string&) {}) {
    const std::string path = set.write(folder / "a");
    std::string index = test::bytes_of(folder / "a.idx");
    damage(index);
    write_bytes(folder / "a.idx", index);
    return error_of([&] { TokenFile f(path); });
  };
  const auto changed = [&](auto&& change) {
    Set set = good;
    change(set);
    return refused(set);
  };
  EXPECT_HAS(changed([](Set& s) { s.sizes = {1, 2}; }), "sequences have 3 tokens, the .bin beside it 4");
  EXPECT_HAS(changed([](Set& s) { s.sizes = {1, 4}; }), "sequence 1 has 4 tokens from token 1 on");
  EXPECT_HAS(changed([](Set& s) { s.sizes = {-1, 5}; }), "sequence 0 has -1 tokens");
  EXPECT_HAS(changed([](Set& s) { s.pointers = {2, 0}; }), "sequence 0 begins at byte 2");
  EXPECT_HAS(changed([](Set& s) {
               s.pointers = {0, 4};
             }),
             "sequence 1 begins at byte 4 of the .bin, the one before it ends at 2");
  EXPECT_HAS(changed([](Set& s) { s.documents = {1, 2}; }), "document 0 begins at sequence 1; it must be 0");
  EXPECT_HAS(changed([](Set& s) {
               s.documents = {0, 2, 1, 2};
             }),
             "document 2 begins at sequence 1; it must be from 2 to 2");
  EXPECT_HAS(changed([](Set& s) { s.documents = {0, 3}; }), "document 1 begins at sequence 3; it must be from 0 to 2");
  EXPECT_HAS(changed([](Set& s) { s.documents = {0, 1}; }), "its last document ends at sequence 1 of 2");
  EXPECT_HAS(changed([](Set& s) { s.documents = {}; }), "no entry");
  EXPECT_HAS(changed([](Set& s) { s.code = 5; }), "dtype code 5 (i64); 8 (u16) and 4 (i32) are read");
  EXPECT_HAS(changed([](Set& s) { s.code = 4; }), "sequence 1 begins at byte 2");
  EXPECT_HAS(changed([](Set& s) { s.code = 77; }), "dtype code 77 (unknown)");
  EXPECT_HAS(changed([](Set& s) { s.version = 2; }), "version 2");
  EXPECT_HAS(changed([](Set& s) { s.magic = "TNTIDX\0\0\0"; }), "not a Megatron index");
  EXPECT_HAS(refused(good, [](std::string& i) { i.resize(33); }), "33 bytes are too few");
  EXPECT_HAS(refused(good, [](std::string& i) { i.pop_back(); }), "cut off: its header promises 82 bytes, it has 81");
  EXPECT_HAS(refused(good, [](std::string& i) { i += "ab"; }), "2 bytes after its document index");
  EXPECT_HAS(refused(good, [](std::string& i) { i.replace(18, 8, 8, '\xff'); }), "18446744073709551615 sequences");
  EXPECT_HAS(refused(good, [](std::string& i) { i.replace(26, 8, 8, '\xff'); }), "18446744073709551615 entries");
  EXPECT_HAS(refused(good, [](std::string& i) { i.clear(); }), "is empty");

  good.write(folder / "odd");
  write_bytes(folder / "odd.bin", "1234567");
  EXPECT_HAS(error_of([&] { TokenFile f(folder / "odd.bin"); }), "7 bytes, no whole number of u16");
  EXPECT_HAS(error_of([&] { TokenFile f(folder / "odd.idx"); }), "name the .bin beside it");
  write_bytes(folder / "lone.bin", "1234");
  EXPECT_HAS(error_of([&] { TokenFile(folder / "lone.bin", {.container = Container::megatron}); }), "lone.idx");
  EXPECT_HAS(error_of([&] { TokenFile(write_bytes(folder / "x", "1234"), {.container = Container::megatron}); }),
             "a .bin with its .idx");
}

// Declared, then recorded; what contradicts itself is refused, and nothing is guessed from the content.
TEST(TokenFormat, TheContainerIsDeclaredOrRecorded) {
  TemporaryFolder folder;
  const std::string shard = write_bytes(folder / "shard.bin", llmc<std::uint16_t>({5, 6, 7}));
  EXPECT_HAS(error_of([&] { TokenFile(shard, {DType::u16}); }), "set data.format to \"llmc\"");
  EXPECT_EQ(TokenFile(shard, {DType::u16, Container::raw}).size(), 515);
  write_bytes(sidecar_path(shard), R"({"dtype": "u16", "container": "llmc"})");
  EXPECT_EQ(TokenFile(shard).size(), 3);
  EXPECT_HAS(error_of([&] { TokenFile(shard, {.container = Container::raw}); }),
             "is raw as the caller (data.format, --format) says, but llmc as its sidecar says");
  write_bytes(sidecar_path(shard), R"({"dtype": "u32", "container": "llmc"})");
  EXPECT_HAS(error_of([&] { TokenFile f(shard); }), "stated to be u32, but its header says u16");
  write_bytes(sidecar_path(shard), R"({"dtype": "u16", "container": "zip"})");
  EXPECT_HAS(error_of([&] { TokenFile f(shard); }),
             "'zip' is no format of token files; they are raw, npy, llmc, megatron");

  const std::string array =
      write_bytes(folder / "a.npy", test::npy("{'descr': '<u2', 'fortran_order': False, 'shape': (1,)}", "ab"));
  EXPECT_HAS(error_of([&] { TokenFile(array, {.container = Container::llmc}); }), "but npy as its name says");
  std::filesystem::copy_file(array, folder / "b.bin");
  EXPECT_EQ(TokenFile(folder / "b.bin", {.container = Container::npy}).size(), 1);

  // An index beside a file says less than a declaration or a sidecar: it may belong to something else.
  const std::string set =
      MegatronBytes<std::uint16_t>{.tokens = {1, 2}, .sizes = {2}, .documents = {0, 1}}.write(folder / "m");
  EXPECT_EQ(TokenFile(set).container(), Container::megatron);
  EXPECT_EQ(TokenFile(set, {DType::u16, Container::raw}).container(), Container::raw);
}

TEST(TokenFormat, ASourceCrossesFilesOfDifferentFormats) {
  TemporaryFolder folder;
  write_tokens<std::uint16_t>(folder / "1.bin", {0, 1, 2});
  write_bytes(folder / "1.bin.json", R"({"dtype": "u16"})");
  write_bytes(folder / "2.npy",
              test::npy("{'descr': '<u4', 'fortran_order': False, 'shape': (1,)}", std::string("\3\0\0\0", 4)));
  write_bytes(folder / "3.bin", llmc<std::uint32_t>({4, 5}));
  write_bytes(folder / "3.bin.json", R"({"dtype": "u32", "container": "llmc"})");
  MegatronBytes<std::uint16_t>{.tokens = {6, 7}, .sizes = {1, 1}, .documents = {0, 1, 2}}.write(folder / "4");
  const TokenSource source({folder / "*"}, {}, 8);
  ASSERT_EQ(source.files().size(), 4u);
  ASSERT_EQ(source.size(), 8);
  for (std::int64_t first = 0; first < 8; ++first) {
    std::vector<std::int32_t> out(std::size_t(8 - first)), expected(out.size());
    source.read(first, 8 - first, out.data());
    std::iota(expected.begin(), expected.end(), std::int32_t(first));
    EXPECT_EQ(out, expected);
  }
}

TEST(TokenFormat, AnIndexOrAShardCutUnderTheMapIsAnError) {
  TemporaryFolder folder;
  const MegatronBytes<std::uint16_t> set{.tokens = std::vector<std::uint16_t>(10'000, 7),
                                         .sizes = std::vector<std::int32_t>(10'000, 1),
                                         .documents = {0, 10'000}};
  const TokenFile file(set.write(folder / "a"));
  const TokenFile shard(write_bytes(folder / "s.bin", llmc(std::vector<std::uint16_t>(10'000, 7))),
                        {.container = Container::llmc});
  std::filesystem::resize_file(folder / "a.idx", 40);
  EXPECT_EQ(tokens_of(file).size(), 10'000u);
  EXPECT_HAS(error_of([&] { file.documents(); }), "a.idx' was cut while in use: 40 bytes");
  std::filesystem::resize_file(folder / "a.bin", 40);
  EXPECT_HAS(error_of([&] { tokens_of(file); }), "was cut while in use: 40 bytes, 20000 when");
  std::filesystem::resize_file(folder / "s.bin", 1024);
  EXPECT_HAS(error_of([&] { shard.scan(0, 10'000, -1); }), "was cut while in use: 1024 bytes, 21024 when");
}

TEST(TokenFormat, MovedFilesKeepTheirDocuments) {
  TemporaryFolder folder;
  TokenFile a(
      MegatronBytes<std::uint16_t>{.tokens = {1, 2, 3}, .sizes = {1, 2}, .documents = {0, 1, 2}}.write(folder / "a"));
  const TokenFile b(std::move(a));
  EXPECT_EQ(b.documents()[1], 1);
  EXPECT_EQ(tokens_of(b), (std::vector<std::int32_t>{1, 2, 3}));
}

}  // namespace
}  // namespace mylos::data
