// Tuning on a device: skipped where there is nothing to choose.
#include "kernels/matmul/tuning.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "kernels/matmul/matmul.hpp"
#include "support/errors.hpp"
#include "support/host_tensor.hpp"

namespace mylos::kernels {
namespace {

TEST(Tune, SaysThatThereIsNothingToChoose) {
  if (product_library().version > 0) GTEST_SKIP() << "there is";
  EXPECT_NE(test::error_of([] { tune({}, {}); }).find("only the CUDA variant"), std::string::npos);
}

// On a GPU: the whole way on two products, one of them unaligned and with an addend elsewhere.
class TuneOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (product_library().version == 0) GTEST_SKIP() << "no cuBLASLt here";
    use_products({});
    const auto random = [&](std::vector<std::int64_t> shape, std::uint64_t seed) {
      return to_device(stream_, test::random_normal(std::move(shape), seed), DType::bf16);
    };
    workspace_ = test::empty_device({matmul_workspace()}, DType::u8);
    x_ = random({512, 768}, 1), w_ = random({1024, 768}, 2), z_ = random({512, 1025}, 3);
    y_ = test::empty_device({512, 1024}, DType::bf16);
  }
  void TearDown() override { use_products({}); }

  // Both results behind one another.
  test::HostTensor both() {
    linear_forward(stream_, x_.tensor, w_.tensor, workspace_.tensor, y_.tensor);
    test::HostTensor first = test::to_host(stream_, y_.tensor);
    linear_forward_residual(stream_, x_.tensor, w_.tensor, z_.tensor.slice(1, 1, 1025), workspace_.tensor, y_.tensor);
    const test::HostTensor second = test::to_host(stream_, y_.tensor);
    first.v.insert(first.v.end(), second.v.begin(), second.v.end());
    first.shape[0] *= 2;
    return first;
  }

  test::HostTensor once(MatmulProvider provider) {
    matmul(stream_, x_.tensor, w_.tensor, {.b = Transpose::yes, .provider = provider}, workspace_.tensor, y_.tensor);
    return test::to_host(stream_, y_.tensor);
  }

  Stream stream_;
  test::DeviceTensor workspace_, x_, w_, z_, y_;
};

TEST_F(TuneOnGpu, WhatItFindsIsPinnedAndGivesTheSameProduct) {
  const test::HostTensor before = both();
  std::vector<ProductShape> shapes;
  for (const TunedProduct& p : products_in_use()) {
    EXPECT_FALSE(p.pinned);
    EXPECT_FALSE(p.description.empty());
    shapes.push_back(p.shape);
  }
  ASSERT_EQ(shapes.size(), 2u);
  ProductCache cache;
  for (const TunedProduct& p : tune(shapes, {.candidates = 6, .seconds = 2})) {
    EXPECT_GT(p.time_us, 0);
    EXPECT_LE(p.time_us, p.first_time_us);
    cache.put(product_library(), p);
  }
  EXPECT_EQ(use_products(ProductCache::parse(cache.to_json(), "x")).pinned, 2u);
  EXPECT_TRUE(test::close(both(), before, 4e-3));
  const std::vector<TunedProduct> ran = products_in_use();
  ASSERT_EQ(ran.size(), 2u);
  for (const TunedProduct& p : ran) EXPECT_TRUE(p.pinned);
  use_products({});
  EXPECT_EQ(both().v, before.v);
}

TEST_F(TuneOnGpu, AnAlgorithmThatIsNoneIsRefusedWithWhatToDo) {
  both();
  ProductCache cache;
  for (TunedProduct p : products_in_use()) {
    p.algorithm.fill(~std::uint64_t(0));
    cache.put(product_library(), p);
  }
  use_products(cache);
  EXPECT_NE(test::error_of([&] { both(); }).find("mylos tune"), std::string::npos);
}

// What the tiles add up in another order lies within the rounding of bf16; an explicit provider stays what it is.
TEST_F(TuneOnGpu, ProductsPinnedToTilesAreDoneByThem) {
  if (!has_provider(MatmulProvider::tiles, DType::bf16)) GTEST_SKIP() << "no tiles on this device";
  use_products({});
  const test::HostTensor library = once(MatmulProvider::automatic);
  std::vector<TunedProduct> ran = products_in_use();
  ASSERT_EQ(ran.size(), 1u);
  ProductCache cache;
  ran[0].tiles = TileOptions{.strip = 2, .lag = 1};
  ran[0].description = "tiles strip 2 lag 1";
  cache.put(product_library(), ran[0]);
  EXPECT_EQ(use_products(ProductCache::parse(cache.to_json(), "x")).pinned, 1u);
  const test::HostTensor tiles = once(MatmulProvider::automatic);
  EXPECT_TRUE(test::close(tiles, library, 4e-3));
  EXPECT_EQ(tiles.v, once(MatmulProvider::tiles).v);
  EXPECT_EQ(library.v, once(MatmulProvider::cublaslt).v);
  ASSERT_EQ(products_in_use().size(), 1u);
  EXPECT_EQ(products_in_use()[0].description, "tiles strip 2 lag 1");
  EXPECT_TRUE(products_in_use()[0].pinned);
}

TEST_F(TuneOnGpu, ProductsThatTilesDoNotTakeAreRefusedWithWhatToDo) {
  use_products({});
  const test::DeviceTensor a = to_device(stream_, test::random_normal({64, 96}, 5), DType::f32),
                           b = to_device(stream_, test::random_normal({128, 96}, 6), DType::f32),
                           c = test::empty_device({64, 128}, DType::f32);
  const auto run = [&] { linear_forward(stream_, a.tensor, b.tensor, workspace_.tensor, c.tensor); };
  run();
  ProductCache cache;
  for (TunedProduct p : products_in_use()) {
    p.tiles = TileOptions{};
    cache.put(product_library(), p);
  }
  use_products(cache);
  EXPECT_NE(test::error_of(run).find("mylos tune"), std::string::npos);
  // Who names cuBLASLt gets it.
  const MatmulOptions library{.b = Transpose::yes, .provider = MatmulProvider::cublaslt};
  matmul(stream_, a.tensor, b.tensor, library, workspace_.tensor, c.tensor);
  EXPECT_TRUE(products_in_use().empty());
}

}  // namespace
}  // namespace mylos::kernels
