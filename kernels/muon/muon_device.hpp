// The launches behind muon.hpp; arguments are checked by the host file.
#pragma once

#include "kernels/muon/muon.hpp"

namespace mylos::kernels::device {
void muon_momentum(const Stream& stream, const MuonStep& step, const FlatOperands& operands, const Tensor& m,
                   const Tensor& u);
void muon_apply(const Stream& stream, const FlatStep& step, const FlatOperands& operands, float factor);
// to = t / (sqrt(squares[0]) + 1e-7); dense, of one dtype, f32 or bf16; to may be t; squares [1] f64.
void divide_by_norm(const Stream& stream, const Tensor& squares, const Tensor& t, const Tensor& to);
}  // namespace mylos::kernels::device
