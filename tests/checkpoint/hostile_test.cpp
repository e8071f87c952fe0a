// Files that somebody made to hurt, or that a disk did: each must give an Error, quickly and without a large
// allocation.
#include <hdf5.h>

#include <cstring>
#include <functional>
#include <random>

#include "checkpoint/store.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "support/host_tensor.hpp"

namespace mylos::checkpoint {
namespace {

using test::error_of;
using test::TemporaryFolder;

const About kAbout{"1", "for the test"};

void write_sample(const std::string& path) {
  Writer w(path);
  w.attribute("/", "kind", std::string("train"));
  w.reals("/samples/steps/loss", std::vector<double>(300, 1.5), kAbout);
  w.text("/config/toml", "[model]\n", kAbout);
  w.commit();
}

// Reads all there is.
void read_all(const std::string& path) {
  const Reader r(path);
  for (const std::string& name : r.walk()) {
    r.attributes(name);
    if (r.has_dataset(name)) r.verify(name);
  }
}

// A file made with plain HDF5 calls.
void make(const std::string& path, const std::function<void(hid_t)>& fill) {
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  ASSERT_GE(file, 0);
  fill(file);
  H5Fclose(file);
}

hid_t dataset(hid_t file, const char* name, hid_t type, std::vector<hsize_t> shape, hid_t layout = H5P_DEFAULT) {
  const hid_t space = H5Screate_simple(int(shape.size()), shape.data(), nullptr);
  const hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, layout, H5P_DEFAULT);
  EXPECT_GE(set, 0);
  H5Sclose(space);
  return set;
}

TEST(Hostile, NotAnHdf5File) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  EXPECT_CONTAINS(error_of([&] { Reader r(path); }), "No such file");
  test::write_file(path, {});
  EXPECT_CONTAINS(error_of([&] { Reader r(path); }), "is not an HDF5 file");
  test::write_file(path, std::vector<char>(5000, 'A'));
  EXPECT_CONTAINS(error_of([&] { Reader r(path); }), "is not an HDF5 file");
  EXPECT_CONTAINS(error_of([&] { Reader r(folder.path()); }), "not a regular file");
}

TEST(Hostile, CutAtManyLengths) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  write_sample(path);
  const auto whole = test::file_bytes(path);
  std::mt19937_64 random(test::test_seed());
  std::vector<std::size_t> lengths{0, 1, 7, 8, 47, 48, 63, 64, 95, 96, whole.size() / 2, whole.size() - 1};
  for (int i = 0; i < 40; ++i) lengths.push_back(random() % whole.size());
  for (const std::size_t n : lengths) {
    test::write_file(path, {whole.begin(), whole.begin() + std::ptrdiff_t(n)});
    const std::string message = error_of([&] { read_all(path); });
    EXPECT_TRUE(message.find("cut off") != std::string::npos || message.find("not an HDF5 file") != std::string::npos)
        << n << ": " << message;
  }
}

// The end of file in the superblock made to match, so that HDF5 itself has to find out.
TEST(Hostile, CutAndTheSuperblockForged) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  make(path, [](hid_t file) {
    std::vector<double> values(300, 1.5);
    const hid_t set = dataset(file, "x", H5T_IEEE_F64LE, {300});
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Dclose(set);
  });
  const auto whole = test::file_bytes(path);
  std::mt19937_64 random(test::test_seed());
  for (int i = 0; i < 30; ++i) {
    const std::size_t n = 100 + random() % (whole.size() - 100);
    std::vector<char> part(whole.begin(), whole.begin() + std::ptrdiff_t(n));
    const std::uint64_t end = n;
    std::memcpy(part.data() + 40, &end, 8);
    test::write_file(path, part);
    error_of([&] { read_all(path); });
  }
}

// HDF5's superblock of version 2 and 3 and all metadata have checksums, as has every chunk; what has none is not used.
TEST(Hostile, AFlippedBitIsFoundOrChangesNothing) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  write_sample(path);
  const auto whole = test::file_bytes(path);
  std::mt19937_64 random(test::test_seed());
  int found = 0;
  for (int i = 0; i < 150; ++i) {
    auto bytes = whole;
    bytes[random() % bytes.size()] ^= char(1 << (random() % 8));
    test::write_file(path, bytes);
    try {
      read_all(path);
      const Reader r(path);
      EXPECT_EQ(r.reals("/samples/steps/loss"), std::vector<double>(300, 1.5));
      EXPECT_EQ(r.text("/config/toml"), "[model]\n");
      EXPECT_EQ(std::get<std::string>(r.attributes("/").at("kind")), "train");
    } catch (const std::exception&) {
      ++found;
    }
  }
  EXPECT_GT(found, 20);
}

TEST(Hostile, AbsurdSizesAreRefusedBeforeTheyAreAllocated) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const hsize_t huge = hsize_t(1) << 40;
  make(path,
       [&](hid_t file) { H5Dclose(dataset(file, "x", H5T_IEEE_F64LE, {huge})); });  // never written: takes no room
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "more than the file's");
  make(path, [&](hid_t file) { H5Dclose(dataset(file, "x", H5T_IEEE_F64LE, {hsize_t(1) << 31, hsize_t(1) << 20})); });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "more than the file's");
  make(path, [&](hid_t file) { H5Dclose(dataset(file, "x", H5T_IEEE_F64LE, {huge, 0, huge, huge})); });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "empty but has an extent");
  make(path, [&](hid_t file) { H5Dclose(dataset(file, "x", H5T_IEEE_F64LE, {20})); });  // nothing stored of it
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "the file is damaged");
  make(path, [&](hid_t file) {  // 16 GB in a few kB by compression
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    const hsize_t chunk = 1 << 20;
    H5Pset_chunk(layout, 1, &chunk);
    H5Pset_deflate(layout, 9);
    const hid_t set = dataset(file, "x", H5T_STD_U8LE, {hsize_t(1) << 20}, layout);
    const std::vector<unsigned char> zeros(1 << 20);
    H5Dwrite(set, H5T_NATIVE_UCHAR, H5S_ALL, H5S_ALL, H5P_DEFAULT, zeros.data());
    H5Dclose(set);
    H5Pclose(layout);
  });
  EXPECT_NE(error_of([&] { read_all(path); }), "");
}

TEST(Hostile, OddObjectsAreRefused) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5", other = folder / "other.h5";
  write_sample(other);
  make(path, [&](hid_t file) { H5Lcreate_soft("/absent", file, "link", H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "soft or external link");
  make(path, [&](hid_t file) { H5Lcreate_external(other.c_str(), "/config", file, "link", H5P_DEFAULT, H5P_DEFAULT); });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "soft or external link");
  make(path, [&](hid_t file) {  // a group that contains itself
    const hid_t group = H5Gcreate2(file, "a", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    H5Lcreate_hard(file, "/a", group, "a", H5P_DEFAULT, H5P_DEFAULT);
    H5Gclose(group);
  });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "two places");
  make(path, [&](hid_t file) {
    std::string name;
    for (int i = 0; i < 30; ++i) {
      name += "/g";
      H5Gclose(H5Gcreate2(file, name.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
    }
  });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "levels");
  make(path, [&](hid_t file) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, 16);
    H5Tinsert(type, "a", 0, H5T_IEEE_F64LE);
    H5Tinsert(type, "b", 8, H5T_IEEE_F64LE);
    H5Dclose(dataset(file, "x", type, {1}));
    H5Tclose(type);
  });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "type that mylos does not write");
  make(path, [&](hid_t file) {
    const hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE);
    H5Dclose(dataset(file, "x", type, {1}));
    H5Tclose(type);
  });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "variable length");
  make(path, [&](hid_t file) { H5Dclose(dataset(file, "x", H5T_IEEE_F64BE, {1})); });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "type that mylos does not write");
  make(path, [&](hid_t file) {  // the data in a file of the attacker's choice
    const hid_t layout = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_external(layout, "/etc/passwd", 0, 64);
    H5Dclose(dataset(file, "x", H5T_STD_U8LE, {64}, layout));
    H5Pclose(layout);
  });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "in another file");
}

TEST(Hostile, AChangedElementOrStatementIsFound) {
  const TemporaryFolder folder;
  const std::string path = folder / "x.h5";
  const auto change = [&](const std::function<void(hid_t)>& work) {
    write_sample(path);
    const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
    const hid_t set = H5Dopen2(file, "/samples/steps/loss", H5P_DEFAULT);
    work(set);
    H5Dclose(set);
    H5Fclose(file);
  };
  change([](hid_t set) {  // through HDF5, so that chunk and metadata checksums fit
    std::vector<double> values(300, 1.5);
    values[17] = 1.25;
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "is damaged: its SHA-256");
  change([](hid_t set) { H5Adelete(set, "sha256"); });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "no sha256");
  change([](hid_t set) {
    H5Adelete(set, "dtype");
    const hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, 3);
    const hid_t a = H5Acreate2(set, "dtype", type, space, H5P_DEFAULT, H5P_DEFAULT);
    H5Awrite(a, type, "f32");
    H5Aclose(a);
    H5Sclose(space);
    H5Tclose(type);
  });
  EXPECT_CONTAINS(error_of([&] { read_all(path); }), "not the 'f32' it states");
}

}  // namespace
}  // namespace mylos::checkpoint
