// silu(gate) · up and its gradient, the same bits wherever they are computed.
#pragma once

#include "kernels/detail/math.hpp"

namespace mylos::kernels {

// 1 / (1 + e^-x) for a result that is rounded to T. In bf16 a GPU does with the approximations of its special function unit,
// within 1e-5: at the clock of a step that draws the card's full power, the instructions of a better one take longer than
// memory does.
template <class T>
MYLOS_FUNCTION float sigmoid_for(float x) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 2) {
    float power, inverse;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * -1.44269504f));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(1.0f + power));
    return inverse;
  }
#endif
  return sigmoid_f32(x);
}

// silu(gate) · up, to be rounded to T.
template <class T>
MYLOS_FUNCTION float gated(float gate, float up) {
  return gate * sigmoid_for<T>(gate) * up;
}

struct GatedGradient {
  float gate, up;
};
template <class T>
MYLOS_FUNCTION GatedGradient gated_gradient(float gate, float up, float d) {
  const float s = sigmoid_for<T>(gate), silu = gate * s;
  return {d * up * (s + silu * (1.0f - s)), d * silu};
}

}  // namespace mylos::kernels
