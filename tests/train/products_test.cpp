#include "train/products.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"

namespace mylos::train {
namespace {

namespace fs = std::filesystem;

class Products : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("mylos-products-" + std::to_string(::getpid()));
    fs::remove_all(folder_);
    ::setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    ::unsetenv("XDG_CACHE_HOME");
    fs::remove_all(folder_);
    kernels::use_products({});
  }
  static std::string message_of(const std::string& path) {
    try {
      load_products(path);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  }
  fs::path folder_;
};

kernels::ProductCache cache_for(const kernels::ProductLibrary& library) {
  kernels::TunedProduct p;
  p.shape = {.m = 3, .n = 5, .l = 7, .stride = {7, 5, 5, 5}, .alignment = {256, 256, 256, 256}};
  kernels::ProductCache cache;
  cache.put(library, p);
  return cache;
}

TEST_F(Products, TheUsualFileLiesInTheCacheFolder) {
  EXPECT_EQ(usual_products_file(), (folder_ / "mylos/products.json").string());
}

TEST_F(Products, AreSavedIntoAFolderThatIsMadeAndReadBack) {
  const kernels::ProductCache cache = cache_for({"a device", 1});
  save_products(usual_products_file(), cache);
  EXPECT_EQ(load_products(usual_products_file()).to_json(), cache.to_json());
}

TEST_F(Products, AFileThatIsNoneIsAnErrorWithTheCommandThatMakesIt) {
  EXPECT_NE(message_of((folder_ / "none.json").string()).find("mylos tune"), std::string::npos);
  fs::create_directories(folder_ / "mylos");
  EXPECT_NE(message_of((folder_ / "mylos").string()).find("no file"), std::string::npos);
  std::ofstream(usual_products_file()) << "{";
  EXPECT_NE(message_of(usual_products_file()).find(usual_products_file()), std::string::npos);
}

TEST_F(Products, UseSaysWhatCameOfIt) {
  if (kernels::product_library().version == 0) {
    EXPECT_NE(use_products("").find("nothing to tune"), std::string::npos);
    EXPECT_NE(use_products("heuristic").find("nothing to tune"), std::string::npos);
    return;
  }
  EXPECT_NE(use_products("").find("first choices; 'mylos tune'"), std::string::npos);
  EXPECT_THROW(use_products((folder_ / "none.json").string()), Error);
  save_products(usual_products_file(), cache_for(kernels::product_library()));
  EXPECT_NE(use_products("").find("1 tuned in"), std::string::npos);
  EXPECT_EQ(use_products("heuristic").find("tuned"), std::string::npos);
  save_products(usual_products_file(), cache_for({"another device", 1}));
  EXPECT_NE(use_products("").find("1 of other devices"), std::string::npos);
}

// On a GPU: a micro-batch has at least the three products of each of the four matrices of a block.
TEST_F(Products, OfAConfigurationAreFoundByRunningIt) {
  Config config;
  config.model = {.dim = 128, .layers = 2, .heads = 2, .ffn = 256, .vocab = 512};
  config.train.batch = 2;
  config.train.sequence = 64;
  config.train.accumulation = 2;
  config.train.storage = config.train.gradients = DType::bf16;
  config.data.train = {"tokens"};
  const std::vector<kernels::ProductShape> shapes = product_shapes(resolve(config));
  if (kernels::product_library().version == 0)
    EXPECT_TRUE(shapes.empty());
  else
    EXPECT_GE(shapes.size(), 12u);
}

}  // namespace
}  // namespace mylos::train
