// One ragged call of cuDNN's backward pass: how it is made, and a bound on the workspace that it asks for, known without
// building a plan (0.2 to 1 s each).
//
// Bytes, as cuDNN 9 asks on an H200 (tests hold plans against them): deterministic, scores in bf16 for room x H x longest^2,
// lengths rounded up to tiles of 64 x 128 (cudnn-frontend's source says so too); in any order, fp32 sums of dq; with shared key/value heads, sums of dk and dv of each query
// head. Sums lie either `packed`, in rows like the gradients' of a fused projection q|k|v for the tokens of the batch, or
// one document after another, each with room for the longest; whichever is smaller is never much slower.
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"

namespace mylos::kernels::attention {

struct RaggedCall {
  bool deterministic = true, packed = true;
  std::int64_t workspace = 0;
};
// For at most `room` documents of at most `longest` tokens. Where any order is allowed the faster way of both, if its
// workspace is within the budget.
RaggedCall ragged_call(const AttentionShape& shape, std::int64_t longest, std::int64_t room, bool deterministic);
// What calls may ask for: as much as one document a row does, or enough for one call where that is little memory.
std::int64_t ragged_budget(const AttentionShape& shape, bool deterministic);

}  // namespace mylos::kernels::attention
