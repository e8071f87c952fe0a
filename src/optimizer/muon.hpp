// Muon (Jordan et al. 2024; kernels/muon) for the matrices of the blocks, each part of a fused one (q, k, v, gate, up) by itself;
// AdamW for embedding, head and norm weights. A shard's bounds must not cut a matrix: it is orthogonalised as a whole.
//
// State: momentum [hidden], moment1 and moment2 [the others]; covers says of which elements. In a resumed run they are all there is.
// Besides, in the same category: the directions of the matrices that are orthogonalised together and the workspace of their Newton-Schulz
// iteration. Small matrices do not fill a GPU: as many of one shape as kTogether elements hold go through batched products, recorded once as
// a CUDA graph and replayed.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "optimizer/optimizer.hpp"
#include "tensor/async.hpp"

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

  // Some ten times what fills an H200 (132 tiles of 128 x 128 are 2.1 million), so that the last, incomplete wave of tiles does not count.
  static constexpr std::int64_t kTogether = std::int64_t(1) << 25;
  std::size_t group_at(std::size_t first) const;
  // The first directions, all of one shape, to orthogonal ones.
  void orthogonalize(const Stream& stream, std::size_t count, std::int64_t rows, std::int64_t columns);
  void group(const Update& update, std::size_t first, std::size_t count);
  template <class F>
  void each_run(std::size_t first, std::size_t count, const F& f) const;
  // f(FlatStep, FlatOperands, range) for one matrix, or several that follow each other.
  template <class F>
  void matrix(const Update& update, const MatrixPart& part, const F& f) const;

  std::vector<MatrixPart> matrices_;  // of the shard, by shape
  FlatRange hidden_;                  // of the shard
  std::vector<FlatRange> others_;     // of the shard
  Tensor momentum_, m_, v_;
  Tensor directions_, workspace_;
  // By number of matrices and shape; none: it ran once by hand.
  std::map<std::array<std::int64_t, 3>, std::optional<Graph>> recorded_;
};

}  // namespace mylos::optimizer
