#include "data/npy.hpp"

#include <random>

#include "data/files.hpp"
#include "data/token_file.hpp"
#include "support/host_tensor.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using test::npy;

TokenLayout parse(const std::string& file) {
  return parse_npy_header(std::as_bytes(std::span(file)), std::int64_t(file.size()), "x.npy");
}

std::string header(const std::string& descr, const std::string& shape, const std::string& fortran = "False") {
  return "{'descr': " + descr + ", 'fortran_order': " + fortran + ", 'shape': " + shape + ", }";
}

TEST(Npy, ReadsAllVersionsAndBothTypes) {
  for (const int version : {1, 2, 3}) {
    const TokenLayout a = parse(npy(header("'<u2'", "(3,)"), std::string(6, 'x'), version));
    EXPECT_EQ(a.dtype, DType::u16);
    EXPECT_EQ(a.count, 3);
    EXPECT_EQ(a.data_begin, 128);
    const TokenLayout b = parse(npy(header("'<u4'", "(2,)", "True"), std::string(8, 'x'), version));
    EXPECT_EQ(b.dtype, DType::u32);
    EXPECT_EQ(b.count, 2);
  }
  EXPECT_EQ(parse(npy("{\"shape\":(3L,),\"fortran_order\":False,\"descr\":\"<u2\"}", "xxxxxx")).count, 3);
}

TEST(Npy, TokensComeOutAsTheyWentIn) {
  test::TemporaryFolder folder;
  const std::vector<std::int32_t> values = test::random_ints(777, 0, 65536, test::test_seed());
  std::vector<std::uint16_t> narrow(values.begin(), values.end());
  const std::string_view data(reinterpret_cast<const char*>(narrow.data()), 2 * narrow.size());
  const TokenFile file(test::write_bytes(folder / "a.npy", npy(header("'<u2'", "(777,)"), data)));
  std::vector<std::int32_t> out(777);
  file.read(0, 777, 65536, out.data());
  EXPECT_EQ(out, values);
}

TEST(Npy, RefusesOtherArrays) {
  EXPECT_HAS(error_of([] { parse(npy(header("'<i8'", "(1,)"), std::string(8, 'x'))); }), "'<i8'");
  EXPECT_HAS(error_of([] { parse(npy(header("'>u2'", "(1,)"), "xx")); }), "'>u2'");
  EXPECT_HAS(error_of([] { parse(npy(header("[('a', '<u2')]", "(1,)"), "xx")); }), "structured");
  EXPECT_HAS(error_of([] { parse(npy(header("'<u2'", "(1, 1)"), "xx")); }), "2 dimensions");
  EXPECT_HAS(error_of([] { parse(npy(header("'<u2'", "()"), "xx")); }), "0 dimensions");
}

TEST(Npy, RefusesWhatDoesNotFitTheFile) {
  const std::string dictionary = header("'<u2'", "(5,)");
  EXPECT_HAS(error_of([&] { parse(npy(dictionary, "12345678")); }), "header says 5 tokens, the file has room for 4");
  EXPECT_HAS(error_of([&] { parse(npy(dictionary, "12345678901")); }), "1 bytes after the 5 tokens");
  for (const char* absurd : {"(9223372036854775807,)", "(4611686018427387904,)", "(18446744073709551617,)", "(-1,)",
                             "(1e3,)", "(99999999999999999999999,)"})
    EXPECT_HAS(error_of([&] { parse(npy(header("'<u2'", absurd), "12")); }), "x.npy");
  std::string lying = npy(dictionary, "1234567890");
  lying[8] = lying[9] = char(0xff);  // a header of 65535 bytes
  EXPECT_HAS(error_of([&] { parse(lying); }), "65535");
  lying[8] = char(200), lying[9] = 0;
  EXPECT_HAS(error_of([&] { parse(lying); }), "cut off");
  std::string huge = npy(dictionary, "1234567890", 2);
  for (int i = 8; i < 12; ++i) huge[std::size_t(i)] = char(0xff);
  EXPECT_HAS(error_of([&] { parse(huge); }), "4294967295");
}

TEST(Npy, RefusesDamagedHeaders) {
  for (const char* text :
       {"", "{", "}", "{}", "{'descr'}", "{'descr': '<u2'}",
        "{'descr': '<u2', 'descr': '<u2', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<u2', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (1,", "{'descr': '<u2', 'fortran_order': False, 'shape': 1}",
        "{'descr': '<u2, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<u2', 'fortran_order': False, 'shape': (1,)} x",
        "{'descr': '\\x3cu2', 'fortran_order': False, 'shape': (1,)}"})
    EXPECT_HAS(error_of([&] { parse(npy(text, "xx")); }), "x.npy") << text;
  std::string version = npy(header("'<u2'", "(1,)"), "xx");
  version[6] = 4;
  EXPECT_HAS(error_of([&] { parse(version); }), "format 4.0");
}

// Every beginning of a good file, and every byte of its header turned into others, gives an Error or a header that
// fits.
TEST(Npy, NoBeginningAndNoFlippedByteCrashes) {
  const std::string good = npy(header("'<u2'", "(5,)"), "1234567890");
  for (std::size_t n = 0; n < good.size(); ++n) error_of([&] { parse(good.substr(0, n)); });
  std::mt19937_64 gen(test::test_seed());
  for (std::size_t i = 0; i < good.size(); ++i)
    for (int k = 0; k < 8; ++k) {
      std::string bad = good;
      bad[i] = char(gen());
      try {
        const TokenLayout h = parse(bad);
        EXPECT_EQ(h.data_begin + h.count * size_of(h.dtype), std::int64_t(bad.size()));
      } catch (const Error&) {
      }
    }
}

}  // namespace
}  // namespace mylos::data
