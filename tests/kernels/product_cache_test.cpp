// Files of tuned products, what is pinned of them, and what a choice depends on.
#include <gtest/gtest.h>

#include <random>

#include "base/error.hpp"
#include "kernels/matmul/product_table.hpp"
#include "kernels/matmul/providers.hpp"
#include "kernels/matmul/tuning.hpp"
#include "support/errors.hpp"
#include "support/host_tensor.hpp"

namespace mylos::kernels {
namespace {

TunedProduct product(std::int64_t m, double time_us = 90) {
  TunedProduct p;
  p.shape = {.m = m,
             .n = 6144,
             .l = 4096,
             .transpose_b = true,
             .out = DType::f32,
             .adds = true,
             .stride = {4100, 4096, 6144, 6144},
             .alignment = {256, 256, 16, 2}};
  for (std::size_t i = 0; i < p.algorithm.size(); ++i) p.algorithm[i] = 0xFEDCBA9876543210u * (i + std::uint64_t(m));
  p.description = "algorithm 66 tile 20";
  p.time_us = time_us;
  p.first_time_us = 100.125;
  return p;
}

TunedProduct by_tiles(std::int64_t m, const TileOptions& tiles) {
  TunedProduct p = product(m);
  p.algorithm = {};
  p.tiles = tiles;
  p.description = "tiles";
  return p;
}

void expect_same(const TunedProduct& a, const TunedProduct& b) {
  EXPECT_EQ(a.shape, b.shape);
  EXPECT_EQ(a.tiles, b.tiles);
  EXPECT_EQ(a.algorithm, b.algorithm);
  EXPECT_EQ(a.description, b.description);
  EXPECT_EQ(a.time_us, b.time_us);
  EXPECT_EQ(a.first_time_us, b.first_time_us);
}

const ProductLibrary kHere{"NVIDIA H200", 130100}, kOlder{"NVIDIA H200", 130000}, kOther{"NVIDIA H100", 130100};

std::string refusal(const std::string& json) {
  return test::error_of([&] { ProductCache::parse(json, "products.json"); });
}
std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(ProductCache, ComesBackFromItsFile) {
  ProductCache cache;
  cache.put(kHere, product(1));
  cache.put(kHere, product(2));
  cache.put(kOlder, product(1, 77));
  cache.put(kOther, product(1));
  cache.put(kHere, product(2, 80.0625));  // measured again
  cache.put(kOlder, by_tiles(3, {.strip = 16, .lag = 3}));
  const ProductCache read = ProductCache::parse(cache.to_json(), "x");
  EXPECT_EQ(read.to_json(), cache.to_json());
  ASSERT_EQ(read.size(), 5u);
  ASSERT_EQ(read.of(kHere).size(), 2u);
  expect_same(read.of(kHere)[0], product(1));
  expect_same(read.of(kHere)[1], product(2, 80.0625));
  expect_same(read.of(kOlder)[0], product(1, 77));
  expect_same(read.of(kOlder)[1], by_tiles(3, {.strip = 16, .lag = 3}));
  EXPECT_TRUE(read.of({"NVIDIA H200", 1}).empty());
  EXPECT_EQ(ProductCache::parse(ProductCache().to_json(), "x").size(), 0u);
}

// Version 1 had algorithms alone.
TEST(ProductCache, ReadsWhatWasWrittenBeforeThereWereTiles) {
  ProductCache cache;
  cache.put(kHere, product(1));
  const std::string now = cache.to_json(), before = with(now, "\"version\": 2", "\"version\": 1");
  EXPECT_EQ(ProductCache::parse(before, "x").to_json(), now);
  cache.put(kHere, by_tiles(2, {}));
  EXPECT_NE(refusal(with(cache.to_json(), "\"version\": 2", "\"version\": 1")).find("products[1].algorithm is missing"),
            std::string::npos);
}

TEST(ProductCache, BadTilesAreAnErrorThatNamesTheKey) {
  ProductCache cache;
  cache.put(kHere, by_tiles(1, {.strip = 8, .lag = 2}));
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& part) {
    const std::string message = refusal(with(cache.to_json(), from, to));
    EXPECT_NE(message.find(part), std::string::npos) << message << " for " << to;
  };
  expect("\"strip\": 8", "\"strip\": 0", "products[0].tiles.strip is 0");
  expect("\"strip\": 8", "\"strip\": 1025", "products[0].tiles.strip is 1025");
  expect("\"lag\": 2", "\"lag\": 4", "products[0].tiles.lag is 4");
  expect("\"lag\": 2", "\"lag\": 2, \"rows\": 128", "does not know");
  expect("\"strip\": 8,", "", "products[0].tiles.strip is missing");
  expect("\"tiles\": {", "\"tiles\": [{", "not JSON");
  expect("\"tiles\"", "\"tile\"", "products[0].algorithm is missing");
  expect("\"description\"", "\"algorithm\": \"00\", \"description\"", "it can have one");
}

TEST(ProductCache, ABadFileIsAnErrorThatNamesFileAndKey) {
  ProductCache cache;
  cache.put(kHere, product(1));
  const std::string good = cache.to_json();
  const auto expect = [&](const std::string& from, const std::string& to, const std::string& part) {
    const std::string message = refusal(with(good, from, to));
    EXPECT_NE(message.find("products.json"), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message << " for " << to;
  };
  EXPECT_NE(refusal("").find("not JSON"), std::string::npos);
  EXPECT_NE(refusal("[]").find("not an object"), std::string::npos);
  EXPECT_NE(refusal(good.substr(0, good.size() / 2)).find("not JSON"), std::string::npos);
  EXPECT_NE(refusal("{\"format\": \"\xFF\"}").find("not JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(1 << 20, '[')).find("not JSON"), std::string::npos);
  EXPECT_NE(refusal(std::string(std::size_t(ProductCache::kMaxBytes) + 1, ' ')).find("at most"), std::string::npos);
  expect("mylos-products", "mylos-tokens", "format is \"mylos-tokens\"");
  expect("\"version\": 2", "\"version\": 3", "version 3 is not known");
  expect("\"products\": [", "\"products\": {\"a\": [", "not JSON");
  expect("\"version\": 2,", "\"version\": 2, \"more\": 1,", "does not know");
  expect("\"library\": 130100", "\"library\": \"13\"", "products[0].library is not a whole number");
  expect("\"library\": 130100", "\"library\": -1", "products[0].library is -1");
  expect("\"library\": 130100", "\"library\": 1e3", "not a whole number");
  expect("\"m\": 1,", "", "products[0].shape.m is missing");
  expect("\"m\": 1,", "\"m\": 0,", "products[0].shape.m is 0");
  expect("\"m\": 1,", "\"m\": 18446744073709551615,", "products[0].shape.m is 18446744073709551615");
  expect("\"transpose_a\": false", "\"transpose_a\": 0", "products[0].shape.transpose_a is not true or false");
  expect("\"in\": \"bf16\"", "\"in\": \"f64\"", "products[0].shape.in is \"f64\"");
  expect("4100,", "-4100,", "products[0].shape.stride[0] is -4100");
  expect("    16,", "    17,", "products[0].shape.alignment has 17");
  expect("    16,", "", "products[0].shape.alignment is not a list of 4");
  expect("\"algorithm\": \"", "\"algorithm\": \"0", "products[0].algorithm is not 128 hexadecimal");
  expect("\"algorithm\": \"fe", "\"algorithm\": \"FE", "products[0].algorithm is not 128 hexadecimal");
  expect("algorithm 66", "algorithm\\n66", "products[0].description has");
  expect("algorithm 66", std::string(300, 'x'), "products[0].description has");
  expect("\"time_us\": 90.0", "\"time_us\": -1", "products[0].time_us is -1");
  expect("\"time_us\": 90.0", "\"time_us\": 1e300", "products[0].time_us is 1e+300");
  expect("\"time_us\": 90.0", "\"time_us\": null", "products[0].time_us is not a number");
  // A key twice, at the top and further down.
  const std::string twice = "stands twice in one object";
  EXPECT_NE(refusal("{\"version\": 2, " + good.substr(good.find('{') + 1)).find(twice), std::string::npos);
  const std::size_t shape = good.find("\"shape\"");
  EXPECT_NE(
      refusal(good.substr(0, shape) + "\"device\": \"other\", " + good.substr(shape)).find("key \"device\" stands"),
      std::string::npos);
  EXPECT_NE(refusal(good + std::string("\0{", 2)).find("zero byte"), std::string::npos);
  // The same product twice.
  const std::size_t begin = good.find("\"products\": [") + 13, end = good.rfind("]");
  const std::string entry = good.substr(begin, end - begin);
  EXPECT_NE(refusal(good.substr(0, end) + "," + entry + good.substr(end)).find("products[1] is the second entry"),
            std::string::npos);
}

TEST(ProductCache, NoDamageCrashes) {
  ProductCache cache;
  cache.put(kHere, product(1));
  cache.put(kOther, product(7));
  const std::string good = cache.to_json();
  std::mt19937_64 random(test::test_seed());
  for (int round = 0; round < 20000; ++round) {
    std::string bad = good;
    for (std::uint64_t n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % bad.size();
      const std::uint64_t kind = random() % 3;
      if (kind == 0) bad[at] = char(random());
      if (kind == 1) bad.erase(at, 1 + random() % 9);
      if (kind == 2) bad.insert(at, bad.substr(random() % bad.size(), random() % 9));
    }
    try {
      ProductCache::parse(bad, "x").to_json();
    } catch (const Error&) {
    }
  }
}

TEST(ProductTable, PinsForThisDeviceAndVersionOnly) {
  const ProductLibrary here = product_library();
  ProductCache cache;
  cache.put({here.device, here.version + 1}, product(1));
  cache.put({here.device + "x", here.version}, product(1));
  PinnedProducts used = use_products(cache);
  EXPECT_EQ(used.pinned, 0u);
  EXPECT_EQ(used.elsewhere, 2u);
  EXPECT_FALSE(detail::pinned_product(product(1).shape));
  cache.put(here, product(3));
  used = use_products(cache);
  EXPECT_EQ(used.pinned, here.version > 0 ? 1u : 0u);
  EXPECT_EQ(use_products({}).pinned, 0u);
}

TEST(ProductTable, KeepsWhatIsPinnedAndWhatRan) {
  const std::uint64_t before = detail::pinned_generation();
  const std::vector<TunedProduct> pins{product(1), product(2)};
  detail::pin_products(pins);
  EXPECT_NE(detail::pinned_generation(), before);
  ASSERT_TRUE(detail::pinned_product(product(2).shape));
  EXPECT_TRUE(detail::pinned_product(product(2).shape)->pinned);
  EXPECT_FALSE(detail::pinned_product(product(5).shape));
  detail::note_product(product(5));
  detail::note_product(*detail::pinned_product(product(1).shape));
  detail::note_product(product(5, 1));
  const std::vector<TunedProduct> noted = products_in_use();
  ASSERT_EQ(noted.size(), 2u);
  EXPECT_TRUE(noted[0].pinned);
  expect_same(noted[1], product(5));
  for (std::int64_t m = 10; m < std::int64_t(2 * detail::kMostNoted); ++m) detail::note_product(product(m));
  EXPECT_EQ(products_in_use().size(), detail::kMostNoted);
  use_products({});
  EXPECT_TRUE(products_in_use().empty());
}

TEST(ProductShape, HoldsWhatAChoiceDependsOn) {
  detail::Product p{.m = 3,
                    .n = 5,
                    .l = 7,
                    .transpose_a = false,
                    .transpose_b = true,
                    .alpha = 1,
                    .beta = 0,
                    .in = DType::bf16,
                    .out = DType::bf16,
                    .a = {reinterpret_cast<void*>(1024), 7},
                    .b = {reinterpret_cast<void*>(48), 8},
                    .c = {reinterpret_cast<void*>(6), 9},
                    .z = {reinterpret_cast<void*>(4096), 10}};
  const ProductShape plain = detail::shape_of(p);
  EXPECT_EQ(plain.alignment, (std::array<std::int64_t, 4>{256, 16, 2, 2}));
  EXPECT_EQ(plain.stride, (std::array<std::int64_t, 4>{7, 8, 9, 9}));
  EXPECT_EQ(describe(plain), "bf16 [3, 7] x [5, 7]ᵀ -> bf16");
  EXPECT_EQ(flops_of(plain), 210.0);
  p.alpha = 2;
  EXPECT_EQ(detail::shape_of(p), plain);
  p.beta = 0.5f;
  const ProductShape added = detail::shape_of(p);
  EXPECT_TRUE(added.adds);
  EXPECT_EQ(added.stride[3], 10);
  EXPECT_EQ(added.alignment[3], 256);
  EXPECT_EQ(describe(added), "bf16 [3, 7] x [5, 7]ᵀ + C -> bf16");
}

}  // namespace
}  // namespace mylos::kernels
