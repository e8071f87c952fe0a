// The FLOP ledger: what one optimizer step computes and moves, op by op, and the model FLOPs that MFU is defined by.
//
// FLOPs count a multiply-add as two; attention is counted causal (half of S x S), as it is computed. Bytes are what the
// op must move if every operand is read or written once. Element-wise work is in the ledger by its bytes; its FLOPs are
// counted only where the op's header states them. Model FLOPs a token (P' = matrices of the blocks and the head,
// without the input embedding and the norms; P_all = all parameters; attention width H·h):
//   causal 6·P' + 6·L·H·h·S     palm 6·P' + 12·L·H·h·S (Chowdhery et al. 2022, appendix B)
//   total 6·P_all + 12·L·H·h·S
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/config.hpp"

namespace mylos::model {

enum class Phase { forward, backward, recompute, optimizer };
std::string_view name_of(Phase phase);

struct OpCost {
  std::string op;  // label of the kernel folder, with what it is for: "matmul/qkv"
  Phase phase;
  std::int64_t calls;  // in one step
  double flops;        // of all calls
  double bytes;        // of all calls
  DType dtype;         // of the operands: which peak applies
};

struct LedgerOptions {
  std::int64_t micro_batches = 1;            // accumulated in a step
  double optimizer_bytes_per_parameter = 0;  // read and written by the optimizer besides weights and gradients
};

std::vector<OpCost> step_ledger(const ModelConfig& resolved, const ExecutionConfig& execution,
                                const LedgerOptions& options);

struct FlopTotals {
  double forward = 0, backward = 0, recompute = 0, optimizer = 0;
  double all() const { return forward + backward + recompute + optimizer; }
};
FlopTotals total_flops(const std::vector<OpCost>& ledger);
FlopTotals total_bytes(const std::vector<OpCost>& ledger);

// Parameters that take part in matrix products: P' above.
std::int64_t product_parameters(const ModelConfig& resolved);

// FLOPs a token for a forward and backward pass at sequence length S, under each name.
struct ModelFlops {
  double causal, palm, total;
};
ModelFlops model_flops_per_token(const ModelConfig& resolved, std::int64_t sequence);

}  // namespace mylos::model
