#include "plan/memory_plan.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace mylos::plan {
namespace {

using model::ExecutionConfig;
using model::ModelConfig;
using model::Recompute;

ModelConfig small() { return {.dim = 96, .layers = 5, .heads = 6, .kv_heads = 2, .vocab = 611, .max_seq_len = 160}; }

TEST(MemoryPlan, IsWhatARunAllocates) {
  for (const auto& [r, blocks] : {std::pair{Recompute::none, 0},
                                  {Recompute::selective, 0},
                                  {Recompute::selective, 2},
                                  {Recompute::full, 0},
                                  {Recompute::full, 3}}) {
    const ExecutionConfig e{.batch = 2, .sequence = 150, .recompute = r, .recompute_blocks = blocks};
    const LayOutMore optimizer = [](Arena& arena, const model::Transformer& t) {
      arena.take(DType::f32, {2 * t.layout().total}, "optimizer");
    };
    const MemoryPlan p = plan_memory(small(), e, optimizer);
    const std::int64_t before = device_memory().current_bytes;
    Arena arena(p.total_bytes, "run");
    const model::Transformer t(small(), e, arena);
    optimizer(arena, t);
    EXPECT_EQ(device_memory().current_bytes - before, p.total_bytes);
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : p.categories) sum += bytes;
    EXPECT_EQ(sum, p.total_bytes);
    EXPECT_GE(p.categories.at("optimizer"), 8 * p.parameters);
    EXPECT_EQ(p.categories.at("weights"), p.categories.at("gradients"));
  }
}

TEST(MemoryPlan, EveryBlockWithAHeavierPolicySavesMemory) {
  for (const Recompute r : {Recompute::selective, Recompute::full}) {
    std::int64_t before = INT64_MAX;
    for (std::int64_t blocks = 1; blocks <= small().layers; ++blocks) {
      const std::int64_t bytes =
          plan_memory(small(), {.batch = 4, .sequence = 150, .recompute = r, .recompute_blocks = blocks}).total_bytes;
      EXPECT_LT(bytes, before) << blocks;
      before = bytes;
    }
    EXPECT_EQ(before, plan_memory(small(), {.batch = 4, .sequence = 150, .recompute = r}).total_bytes);
  }
}

TEST(MemoryPlan, RecomputationKeepsLess) {
  const auto bytes = [](Recompute r) {
    return plan_memory(small(), {.batch = 4, .sequence = 150, .recompute = r}).categories.at("activations");
  };
  EXPECT_LT(bytes(Recompute::selective), bytes(Recompute::none));
  EXPECT_LT(bytes(Recompute::full), bytes(Recompute::selective) / 4);
}

// 32 blocks, 1 x 4096 tokens, bf16: each block keeps x, rstd; the other tensors exist once.
TEST(MemoryPlan, SevenBillionWithFullRecomputation) {
  const ModelConfig m{
      .dim = 4096, .layers = 32, .heads = 32, .kv_heads = 8, .ffn = 14336, .vocab = 128256, .max_seq_len = 4096};
  const MemoryPlan p = plan_memory(
      m,
      {.batch = 1, .sequence = 4096, .recompute = Recompute::full, .storage = DType::bf16, .gradients = DType::bf16});
  EXPECT_EQ(p.parameters, 8'030'261'248);
  EXPECT_EQ(p.categories.at("weights"), 2 * 8'030'261'248);
  const std::int64_t stream = 4096 * 4096 * 2, rstd = 4096 * 4;
  EXPECT_EQ(p.categories.at("activations"), 34 * stream + 33 * rstd);
}

TEST(MemoryPlan, TextAndJsonHoldTheNumbers) {
  const MemoryPlan p = plan_memory(small(), {.batch = 1, .sequence = 100});
  const std::string text = to_text(p);
  EXPECT_NE(text.find(std::to_string(p.total_bytes)), std::string::npos) << text;
  EXPECT_NE(text.find(std::to_string(p.parameters)), std::string::npos) << text;
  const auto j = nlohmann::json::parse(to_json(p).dump());
  EXPECT_EQ(j["memory_bytes"]["total"], p.total_bytes);
  EXPECT_EQ(j["memory_bytes"]["weights"], p.categories.at("weights"));
  EXPECT_EQ(j["parameters"]["total"], p.parameters);
  EXPECT_EQ(j["execution"]["recompute"], "none");
}

TEST(MemoryPlan, WhatDoesNotFitSaysWhatToChange) {
  const ExecutionConfig e{.batch = 8, .sequence = 150};
  const MemoryPlan p = plan_memory(small(), e);
  EXPECT_NO_THROW(check_fits(p, p.total_bytes));
  try {
    check_fits(p, p.total_bytes - 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("recompute selective with micro-batch 8"), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find("recompute none with micro-batch 4"), std::string::npos) << error.what();
  }
  try {
    check_fits(p, 1000);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("smaller model"), std::string::npos) << error.what();
  }
}

// Names are looked up once a layer; a search through all of them took minutes here.
TEST(MemoryPlan, TheDeepestModelIsPlannedAtOnce) {
  ModelConfig deep = small();
  deep.layers = 1 << 14;
  EXPECT_GT(plan_memory(deep, {.batch = 1, .sequence = 8}).parameters, std::int64_t(1) << 30);
}

}  // namespace
}  // namespace mylos::plan
