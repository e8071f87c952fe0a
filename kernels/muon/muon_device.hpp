// The launches behind muon.hpp; arguments are checked by the host files.
#pragma once

#include "kernels/muon/muon.hpp"

namespace mylos::kernels::device {
void muon_momentum(const Stream& stream, const MuonStep& step, const FlatOperands& operands, const Tensor& m,
                   const Tensor& u);
void muon_apply(const Stream& stream, const FlatStep& step, const FlatOperands& operands, float factor);

// newton_schulz_kokkos.cpp; t, to and q dense, of one dtype, f32 or bf16.
// sums [n, R] f32 = sums of squares over the rows of t [n, R, C].
void row_squares(const Stream& stream, const Tensor& t, const Tensor& sums);
// to_i = t_i / (sqrt(squares[i]) + 1e-7); t, to [n, R, C], to may be t; squares [n] f64.
void divide_by_norms(const Stream& stream, const Tensor& squares, const Tensor& t, const Tensor& to);
// q_i += value · I; q [n, s, s].
void add_identity(const Stream& stream, float value, const Tensor& q);
// c[i, j] = c[j, i] for i < s/2 <= j; c [s, s], s even.
void mirror_below(const Stream& stream, const Tensor& c);
}  // namespace mylos::kernels::device
