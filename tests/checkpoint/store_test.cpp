#include "checkpoint/store.hpp"

#include <hdf5.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <numeric>
#include <random>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "support/host_tensor.hpp"

namespace mylos::checkpoint {
namespace {

using test::error_of;
using test::TemporaryFolder;

const About kAbout{"s", "for the test"};

TEST(Store, AttributesAndDatasetsComeBack) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const std::string words = "grain, μύλος";
  std::vector<double> values(1237);
  std::mt19937_64 random(test::test_seed());
  for (double& v : values) v = std::normal_distribution<>()(random);
  {
    Writer w(path);
    w.attribute("/", "text", words);
    w.attribute("/", "empty", std::string());
    w.attribute("/", "integer", std::int64_t(-5'000'000'000));
    w.attribute("/", "real", 0.1);
    w.attribute("/", "flag", true);
    w.attribute("/", "flag", false);  // replaces
    w.group("/deep/er/still", {{"x", std::int64_t(3)}});
    w.reals("/deep/values", values, kAbout);
    w.real("/deep/one", -2.5, kAbout);
    w.integer("/deep/count", std::int64_t(1) << 40, kAbout);
    w.text("/deep/text", words + "\n", kAbout);
    w.text("/deep/nothing", "", kAbout);
    w.texts("/deep/texts", {"a", "", words}, kAbout);
    w.texts("/deep/none", {}, kAbout);
    w.reals("/deep/no_values", {}, kAbout);
    w.commit();
  }
  const Reader r(path);
  const Attributes root = r.attributes("/");
  EXPECT_EQ(std::get<std::string>(root.at("text")), words);
  EXPECT_EQ(std::get<std::string>(root.at("empty")), "");
  EXPECT_EQ(std::get<std::int64_t>(root.at("integer")), -5'000'000'000);
  EXPECT_EQ(std::get<double>(root.at("real")), 0.1);
  EXPECT_EQ(std::get<bool>(root.at("flag")), false);
  EXPECT_EQ(std::get<std::int64_t>(r.attributes("/deep/er/still").at("x")), 3);
  EXPECT_EQ(r.reals("/deep/values"), values);
  EXPECT_EQ(r.real("/deep/one"), -2.5);
  EXPECT_EQ(r.integer("/deep/count"), std::int64_t(1) << 40);
  EXPECT_EQ(r.text("/deep/text"), words + "\n");
  EXPECT_EQ(r.text("/deep/nothing"), "");
  EXPECT_EQ(r.texts("/deep/texts"), (std::vector<std::string>{"a", "", words}));
  EXPECT_TRUE(r.texts("/deep/none").empty());
  EXPECT_TRUE(r.reals("/deep/no_values").empty());
  EXPECT_EQ(r.info("/deep/values").text("units"), "s");
  EXPECT_EQ(r.info("/deep/values").text("sha256").size(), 64u);
  EXPECT_EQ(r.groups("/"), std::vector<std::string>{"deep"});
  EXPECT_EQ(r.groups("/deep"), std::vector<std::string>{"er"});
  EXPECT_EQ(r.datasets("/deep").size(), 8u);
  EXPECT_CONTAINS(error_of([&] { r.reals("/deep/text"); }), "expected f64");
  EXPECT_CONTAINS(error_of([&] { r.reals("/deep/absent"); }), "no dataset '/deep/absent'");
}

// The digest of "abc" from FIPS 180-4, so that other programs can check the attribute.
TEST(Store, ChecksumIsSha256OfTheElements) {
  const TemporaryFolder folder;
  Writer w(folder / "a.h5");
  w.dataset("/abc", DType::u8, {3}, "abc", kAbout);
  w.commit();
  EXPECT_EQ(Reader(folder / "a.h5").info("/abc").text("sha256"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Store, EveryDtypeAndShapeComesBackToTheBit) {
  const TemporaryFolder folder;
  std::mt19937_64 random(test::test_seed());
  // Shapes around the chunk (4 MiB) and slice (8 MiB) sizes, rows longer than a chunk, rank 0 to 4.
  const std::vector<std::vector<std::int64_t>> shapes{
      {}, {1}, {7, 3}, {3, 1, 5, 2}, {2'097'153 + 11}, {1031, 4099}, {3, 1'500'001}, {2, 0, 3}};
  for (const DType dtype :
       {DType::f32, DType::bf16, DType::f64, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32}) {
    for (const auto& shape : shapes) {
      const std::int64_t n = std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<>());
      if (n > 3'000'000 && dtype != DType::bf16 && dtype != DType::f32) continue;
      const std::size_t size = std::size_t(size_of(dtype));
      std::vector<std::byte> bytes(std::size_t(n) * size), got(bytes.size(), std::byte(0x5a)), sliced(got);
      for (std::size_t i = 0; i + 8 <= bytes.size(); i += 8) {
        const std::uint64_t word = random();
        std::memcpy(bytes.data() + i, &word, 8);
      }
      const std::string path = folder / "d.h5";
      {
        Writer w(path);
        w.dataset("/whole", dtype, shape, bytes.data(), kAbout);
        std::int64_t expected = 0;
        w.dataset(
            "/sliced", dtype, shape,
            [&](std::int64_t first, std::int64_t count, void* out) {
              EXPECT_EQ(first, expected);
              expected = first + count;
              std::memcpy(out, bytes.data() + std::size_t(first) * size, std::size_t(count) * size);
            },
            kAbout);
        EXPECT_EQ(expected, n);
        w.commit();
      }
      const Reader r(path);
      EXPECT_EQ(r.info("/whole").dtype, dtype);
      EXPECT_EQ(r.info("/whole").shape, shape);
      EXPECT_EQ(r.info("/whole").text("sha256"), r.info("/sliced").text("sha256"));
      r.read("/sliced", dtype, shape, got.data());
      EXPECT_EQ(got, bytes);
      r.read("/whole", [&](std::int64_t first, std::int64_t count, const void* in) {
        std::memcpy(sliced.data() + std::size_t(first) * size, in, std::size_t(count) * size);
      });
      EXPECT_EQ(sliced, bytes);
    }
  }
}

TEST(Store, WithoutCommitTheOldFileStays) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  {
    Writer w(path);
    w.real("/x", 1, kAbout);
    w.commit();
  }
  const auto before = test::file_bytes(path);
  {
    Writer w(path);
    w.real("/x", 2, kAbout);
  }
  EXPECT_EQ(test::file_bytes(path), before);
  EXPECT_EQ(Reader(path).real("/x"), 1);
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) ++files;
  EXPECT_EQ(files, 1);
}

TEST(Store, TakesAwayWhatAKilledWriterLeft) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5", stale = path + ".tmp-999999999", other = path + ".tmp-notes";
  test::write_file(stale, {'x'});
  test::write_file(other, {'x'});
  Writer w(path);
  w.commit();
  EXPECT_FALSE(std::filesystem::exists(stale));
  EXPECT_TRUE(std::filesystem::exists(other));
}

TEST(Store, SaysWhatCannotBeWritten) {
  const TemporaryFolder folder;
  EXPECT_CONTAINS(error_of([&] { Writer(folder / "absent/a.h5"); }), "does not exist; create it");
  EXPECT_CONTAINS(error_of([&] { Writer(folder.path()); }), "not a regular file");
  Writer w(folder / "a.h5");
  EXPECT_CONTAINS(error_of([&] { w.real("x", 1, kAbout); }), "absolute path");
  EXPECT_CONTAINS(error_of([&] { w.real("/x", 1, {"", "y"}); }), "needs units and a description");
  EXPECT_CONTAINS(error_of([&] { w.text("/x", std::string("a\0b", 3), kAbout); }), "NUL");
  EXPECT_CONTAINS(error_of([&] { w.attribute("/", "x", std::string(40'000, 'a')); }), "make it a dataset");
  EXPECT_CONTAINS(error_of([&] { w.dataset("/x", DType::f64, {1'000'000, -1}, &w, kAbout); }), "impossible extent -1");
  w.real("/x", 1, kAbout);
  EXPECT_CONTAINS(error_of([&] { w.real("/x", 1, kAbout); }), "cannot create dataset '/x'");
  // An error in the fill reaches the caller and leaves no file.
  EXPECT_CONTAINS(error_of([&] {
                    w.dataset(
                        "/y", DType::f64, {2}, [](auto, auto, void*) { fail("no data"); }, kAbout);
                  }),
                  "no data");
}

// Like a full disk. HDF5 by itself would mix the half-written file up with the next one, and crash at exit.
TEST(Store, AFailedWriteLeavesNothingBehind) {
  const TemporaryFolder folder;
  const std::string path = folder / "a.h5";
  const std::vector<double> values(100'000, 1.5);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t room : {rlim_t(100), rlim_t(3'000), rlim_t(500'000)}) {
    const rlimit limit{room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
    const std::string error = error_of([&] {
      Writer w(path);
      w.reals("/values", values, kAbout);
      w.commit();
    });
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
    EXPECT_CONTAINS(error, "a.h5: cannot ");
    EXPECT_CONTAINS(error, std::string(": ") + std::strerror(EFBIG) + ")");
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  }
  std::signal(SIGXFSZ, handler);
  Writer w(path);
  w.reals("/values", values, kAbout);
  w.commit();
  EXPECT_EQ(Reader(path).reals("/values"), values);
}

}  // namespace
}  // namespace mylos::checkpoint
