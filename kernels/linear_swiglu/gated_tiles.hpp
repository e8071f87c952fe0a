// The launch behind linear_swiglu.hpp's `fused`; arguments are checked by the host file. CUDA only.
#pragma once

#include "kernels/matmul/tiles.hpp"

namespace mylos::kernels::device {

bool gated_tiles_take(const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out);
void gated_tiles(const Stream& stream, const Tensor& x, const Tensor& w, const Tensor& gate_up, const Tensor& out,
                 const detail::TileOptions& options = {});
bool gradient_tiles_take(const Tensor& dy, const Tensor& w, const Tensor& gate_up, const Tensor& dgate_up);
void gradient_tiles(const Stream& stream, const Tensor& dy, const Tensor& w, const Tensor& gate_up,
                    const Tensor& dgate_up, const detail::TileOptions& options = {});

}  // namespace mylos::kernels::device
