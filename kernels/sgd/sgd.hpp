// Stochastic gradient descent with momentum (Sutskever et al. 2013), fused over a flat buffer: one launch reads and writes each
// element once. Operands and halting as in optimizer/flat_step.hpp; m [N] f32 or bf16.
//
//   m = momentum·m + g;  d = g + momentum·m with nesterov, else m;  p -= lr·(d + weight_decay·p)
// Weight decay is decoupled (Loshchilov and Hutter 2019, SGDW). bytes: p, low, m read and written, g read.
#pragma once

#include "kernels/optimizer/flat_step.hpp"

namespace mylos::kernels {

struct SgdStep {
  FlatStep flat;
  float momentum = 0.9f;
  bool nesterov = false;
};

void sgd(const Stream& stream, const SgdStep& step, const FlatOperands& operands, const Tensor& m);

}  // namespace mylos::kernels
