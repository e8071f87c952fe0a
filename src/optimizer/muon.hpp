// Muon (Jordan et al. 2024; kernels/muon) for the matrices of the blocks, each part of a fused one (q, k, v, gate, up) by itself;
// AdamW for embedding, head and norm weights. A shard's bounds must not cut a matrix: it is orthogonalised as a whole.
//
// State: momentum [hidden], moment1 and moment2 [the others]; covers says of which elements. In a resumed run they are all there is.
// Besides, in the same category: one matrix's direction and the workspace of its Newton-Schulz iteration, for the largest matrix.
#pragma once

#include "optimizer/optimizer.hpp"

namespace mylos::optimizer {

// Of the direction of a matrix: the scale rules of MuonScale.
double muon_factor(MuonScale scale, std::int64_t rows, std::int64_t columns);

class Muon final : public Optimizer {
 public:
  Muon(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed, Arena& arena);

 private:
  void start(const Stream& stream, const Tensor& weights) override;
  void rule(const Update& update) override;
  void list(std::vector<State>& states) const override;
  void matrix(const Update& update, const MatrixPart& part) const;

  std::vector<MatrixPart> matrices_;  // of the shard
  FlatRange hidden_;                  // of the shard
  std::vector<FlatRange> others_;     // of the shard
  Tensor momentum_, m_, v_, direction_, workspace_;
};

}  // namespace mylos::optimizer
