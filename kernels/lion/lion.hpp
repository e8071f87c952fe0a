// Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms", algorithm 2), fused over a flat buffer: one launch
// reads and writes each element once. Operands and halting as in optimizer/flat_step.hpp; m [N] f32 or bf16.
//
//   u = sign(b1·m + (1-b1)·g), with sign(0) = 0;  p -= lr·(u + weight_decay·p);  m = b2·m + (1-b2)·g
// bytes: p, low, m read and written, g read.
#pragma once

#include "kernels/optimizer/flat_step.hpp"

namespace mylos::kernels {

struct LionStep {
  FlatStep flat;
  double beta1 = 0.9;
  double beta2 = 0.99;
};

void lion(const Stream& stream, const LionStep& step, const FlatOperands& operands, const Tensor& m);

}  // namespace mylos::kernels
