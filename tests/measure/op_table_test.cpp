#include "measure/op_table.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace mylos::measure {
namespace {

using model::Phase;

// 1 PFLOP/s in bf16 and 4 TB/s.
constexpr DevicePeak kPeak{"test", 1e15, 0, 0, 0, 4e12, "a test"};

std::vector<model::OpCost> ledger() {
  return {{"matmul/qkv", Phase::forward, 4, 2e12, 1e9, DType::bf16},
          {"attention", Phase::forward, 4, 1e12, 1e9, DType::bf16},
          {"swiglu", Phase::backward, 4, 0, 8e9, DType::bf16},
          {"optimizer", Phase::optimizer, 1, 0, 4e9, DType::bf16}};
}

// Of two steps.
std::vector<OpTime> times() {
  return {{"backward", "swiglu", 8, 8e-3},
          {"forward", "matmul/qkv", 8, 8e-3},
          {"forward", "attention", 8, 4e-3},
          {"optimizer", "optimizer", 2, 4e-3},
          {"forward", "extra", 2, 2e-3}};
}

TEST(OpTable, JoinsTimesWithTheLedger) {
  const OpTable t = op_table(times(), 2, 15e-3, ledger(), kPeak);
  ASSERT_EQ(t.rows.size(), 5u);
  const OpRow& product = t.rows[0];
  EXPECT_EQ(product.cost.op, "matmul/qkv");
  EXPECT_EQ(product.calls, 4);
  EXPECT_DOUBLE_EQ(product.seconds, 4e-3);
  EXPECT_TRUE(product.compute_bound);
  EXPECT_DOUBLE_EQ(product.roofline_s, 2e-3);
  EXPECT_DOUBLE_EQ(product.of_roofline(), 0.5);
  const OpRow& swiglu = t.rows[2];
  EXPECT_FALSE(swiglu.compute_bound);
  EXPECT_DOUBLE_EQ(swiglu.roofline_s, 2e-3);
  EXPECT_EQ(swiglu.op_class(), OpClass::memory_bound);
  EXPECT_EQ(t.rows[4].cost.op, "extra") << "measured, but not in the ledger";
  EXPECT_NEAR(t.between_s, 15e-3 - 13e-3, 1e-12);
}

TEST(OpTable, TextIsSortedAndNamesWhatIsNotKnown) {
  const std::string known = to_text(op_table(times(), 2, 15e-3, ledger(), kPeak));
  EXPECT_LT(known.find("matmul/qkv"), known.find("attention"));
  EXPECT_NE(known.find("500 TFLOP/s"), known.npos) << known;
  EXPECT_NE(known.find("2 TB/s"), known.npos) << known;
  EXPECT_NE(known.find("between ops"), known.npos) << known;
  const std::string products = known.substr(known.find("products "));
  EXPECT_NE(products.substr(0, products.find('\n')).find("500 TFLOP/s"), products.npos) << products;
  const OpTable unknown = op_table(times(), 2, 15e-3, ledger(), std::nullopt);
  EXPECT_EQ(unknown.rows[0].roofline_s, 0);
  EXPECT_TRUE(unknown.rows[0].compute_bound);
  EXPECT_NE(to_text(unknown).find("500 TFLOP/s"), std::string::npos);
  const nlohmann::ordered_json j = to_json(unknown);
  EXPECT_FALSE(j["ops"][0].contains("roofline_s"));
  EXPECT_EQ(to_json(op_table(times(), 2, 15e-3, ledger(), kPeak))["ops"][0]["bound"], "compute");
}

TEST(OpTable, RefusesAPhaseThatIsNone) {
  EXPECT_THROW(op_table({{"sideways", "matmul/qkv", 1, 1e-3}}, 1, 1e-2, ledger(), kPeak), Error);
  EXPECT_THROW(op_table(times(), 0, 1e-2, ledger(), kPeak), Error);
}

}  // namespace
}  // namespace mylos::measure
