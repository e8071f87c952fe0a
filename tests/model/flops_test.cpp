// The FLOP ledger against the reference system's published counts and against its own definitions.
#include "model/flops.hpp"

#include <gtest/gtest.h>

namespace mylos::model {
namespace {

ModelConfig llama_7b() {
  return resolve({.dim = 4096,
                  .layers = 32,
                  .heads = 32,
                  .kv_heads = 8,
                  .ffn_multiplier = 1.3,
                  .vocab = 128256,
                  .max_seq_len = 4096});
}

TEST(Flops, PublishedCounts) {
  EXPECT_EQ(product_parameters(llama_7b()), 7'504'658'432);
  const ModelFlops f = model_flops_per_token(llama_7b(), 4096);
  EXPECT_NEAR(f.palm, 51.470e9, 0.001e9);
  EXPECT_EQ(f.palm - f.causal, 6.0 * 32 * 4096 * 4096);
  EXPECT_EQ(f.total - f.palm, 6.0 * (8'030'261'248 - 7'504'658'432));
  const ModelConfig small = resolve({.dim = 768, .layers = 12, .heads = 12, .vocab = 32000});
  EXPECT_EQ(product_parameters(small), 109'510'656);
  EXPECT_NEAR(model_flops_per_token(small, 512).palm, 0.714e9, 0.001e9);
  // A tied table works as the head, so it counts.
  ModelConfig tied = small;
  tied.tied_head = true;
  EXPECT_EQ(product_parameters(tied), 109'510'656);
}

TEST(Flops, AttentionWidthIsHeadsTimesHeadSize) {
  const ModelConfig c =
      resolve({.dim = 44, .layers = 3, .heads = 6, .kv_heads = 2, .head_size = 10, .ffn = 36, .vocab = 71});
  const ModelFlops f = model_flops_per_token(c, 29);
  EXPECT_EQ(f.palm - f.causal, 6.0 * 3 * 60 * 29);
}

// Products and attention of the ledger are what the definition `causal` counts, but for attention's recomputed scores
// in the backward pass (2.5 forward instead of 2).
TEST(Flops, LedgerAgreesWithDefinition) {
  const ModelConfig c = llama_7b();
  const ExecutionConfig e{.batch = 2, .sequence = 4096, .storage = DType::bf16, .gradients = DType::bf16};
  double products = 0, attention_forward = 0, attention_backward = 0;
  for (const OpCost& op : step_ledger(c, e, {.micro_batches = 3})) {
    if (op.op.starts_with("matmul/") || op.op == "linear_cross_entropy") products += op.flops;
    if (op.op == "attention") (op.phase == Phase::forward ? attention_forward : attention_backward) += op.flops;
    EXPECT_GT(op.bytes, 0) << op.op;
  }
  const double tokens = 3 * 2 * 4096;
  const double P = double(product_parameters(c)), causal = model_flops_per_token(c, 4096).causal;
  EXPECT_DOUBLE_EQ(products, 6 * P * tokens);
  EXPECT_DOUBLE_EQ(attention_forward * 3, (causal - 6 * P) * tokens);
  EXPECT_DOUBLE_EQ(attention_backward, 2.5 * attention_forward);
}

TEST(Flops, RecomputeCostsWhatThePolicyDrops) {
  const ModelConfig c = llama_7b();
  const auto totals = [&](Recompute r) {
    return total_flops(step_ledger(c, {.batch = 1, .sequence = 4096, .recompute = r, .storage = DType::bf16}, {}));
  };
  const FlopTotals none = totals(Recompute::none), selective = totals(Recompute::selective),
                   full = totals(Recompute::full);
  EXPECT_EQ(none.recompute, 0);
  EXPECT_GT(selective.recompute, 0);
  EXPECT_LT(selective.recompute, 1e-3 * none.forward);
  EXPECT_EQ(none.forward, full.forward);
  EXPECT_EQ(none.backward, full.backward);
  // All of a block but the last product, in all blocks but the last one.
  const double block_products = 2.0 * 4096 * (218'103'808.0 - 14336.0 * 4096), attention = 2.0 * 32 * 4096 * 4096 * 128;
  EXPECT_NEAR(full.recompute / (31 * (block_products + attention)), 1.0, 1e-3);
}

// The same FLOPs; of the bytes, what the passes over memory read or wrote again is gone.
TEST(Flops, SwigluInItsProductsMovesLess) {
  const ModelConfig c = llama_7b();
  for (const Recompute r : {Recompute::none, Recompute::selective, Recompute::full}) {
    ExecutionConfig e{.batch = 1, .sequence = 4096, .recompute = r, .storage = DType::bf16, .gradients = DType::bf16};
    const auto apart = step_ledger(c, e, {});
    e.fused_swiglu_forward = e.fused_swiglu_backward = true;
    const auto fused = step_ledger(c, e, {});
    EXPECT_DOUBLE_EQ(total_flops(fused).all(), total_flops(apart).all());
    const double pass = 2.0 * 4096 * 14336, a = total_bytes(apart).forward - total_bytes(fused).forward,
                 b = total_bytes(apart).backward - total_bytes(fused).backward,
                 again = total_bytes(apart).recompute - total_bytes(fused).recompute;
    EXPECT_DOUBLE_EQ(a, 32 * 2 * pass);  // gate and up are not read again
    EXPECT_DOUBLE_EQ(b, 32 * 2 * pass);  // neither is the gradient of their product written and read
    EXPECT_NEAR(again, r == Recompute::full ? 31 * 2 * pass : 0,
                1);  // selective has gate and up, and computes from them
  }
}

}  // namespace
}  // namespace mylos::model
