#include "optimizer/muon.hpp"

#include <cmath>

#include "base/error.hpp"
#include "kernels/muon/muon.hpp"
#include "optimizer/adamw.hpp"
#include "tensor/region.hpp"

namespace mylos::optimizer {

double muon_factor(MuonScale scale, std::int64_t rows, std::int64_t columns) {
  if (scale == MuonScale::spectral) return std::sqrt(std::max(1.0, double(rows) / double(columns)));
  return 0.2 * std::sqrt(double(std::max(rows, columns)));
}

Muon::Muon(const OptimizerConfig& config, const Parameters& parameters, DType storage, std::uint64_t seed, Arena& arena)
    : Optimizer(config, parameters, storage, seed, arena), hidden_(own(parameters.hidden)) {
  const FlatRange& hidden = parameters.hidden;
  std::int64_t largest = 0, workspace = 0, other_elements = 0;
  for (const MatrixPart& p : parameters.matrices) {
    const FlatRange whole{p.offset, p.end()}, mine = own(whole);
    if (mine.size() == 0) continue;
    check(
        mine.size() == whole.size(),
        "a shard of elements {} to {} cuts the matrix of elements {} to {}, which Muon orthogonalises as a whole; let "
        "shards begin and end between matrices",
        shard().begin, shard().end, whole.begin, whole.end);
    matrices_.push_back(p);
    largest = std::max(largest, whole.size());
    workspace = std::max(workspace, kernels::orthogonalize_workspace(p.rows, p.columns, config_.muon_dtype));
  }
  for (const FlatRange& r : {own({0, hidden.begin}), own({hidden.end, parameters.total})}) {
    if (r.size() == 0) continue;
    others_.push_back(r);
    other_elements += r.size();
  }
  momentum_ = take(config_.moments, hidden_.size(), arena);
  m_ = take(config_.moments, other_elements, arena);
  v_ = take(config_.moments, other_elements, arena);
  direction_ = take(config_.muon_dtype, largest, arena);
  workspace_ = take(DType::u8, workspace, arena);
}

void Muon::start(const Stream& stream, const Tensor&) {
  for (const Tensor& t : {momentum_, m_, v_})
    if (t) fill_zero(stream, t);
}

void Muon::matrix(const Update& u, const MatrixPart& p) const {
  each_part(u, {p.offset, p.end()}, [&](const kernels::FlatStep& step, kernels::FlatOperands o, const FlatRange& r) {
    check(r.size() == p.rows * p.columns, "weight decay ends within a matrix");
    const Tensor direction = direction_.slice(0, 0, r.size());
    {
      const Region region(u.stream, "optimizer", "optimizer");
      kernels::muon_momentum(u.stream,
                             {.flat = step, .momentum = float(config_.momentum), .nesterov = config_.nesterov}, o,
                             window(momentum_, hidden_.begin, r), direction);
    }
    {
      const Region region(u.stream, "optimizer", "newton_schulz");
      kernels::orthogonalize(u.stream, direction.reshape({p.rows, p.columns}), int(config_.muon_iterations),
                             workspace_);
    }
    const Region region(u.stream, "optimizer", "optimizer");
    o.g = direction;
    kernels::muon_apply(u.stream, step, o, float(muon_factor(config_.muon_scale, p.rows, p.columns)));
  });
}

void Muon::rule(const Update& u) {
  for (const MatrixPart& p : matrices_) matrix(u, p);
  const Region region(u.stream, "optimizer", "optimizer");
  std::int64_t origin = 0;  // of the range in m_ and v_
  for (const FlatRange& other : others_) {
    each_part(u, other, [&](kernels::FlatStep step, const kernels::FlatOperands& o, const FlatRange& r) {
      step.learning_rate = float(double(step.learning_rate) * config_.muon_adamw);
      const std::int64_t first = other.begin - origin;
      kernels::adamw(u.stream, adamw_step(step, config_), o.g, o.scale, o.p, o.low, window(m_, first, r),
                     window(v_, first, r));
    });
    origin += other.size();
  }
}

void Muon::list(std::vector<State>& states) const {
  if (momentum_) states.push_back({"momentum", momentum_, {hidden_}});
  if (m_) states.push_back({"moment1", m_, others_});
  if (v_) states.push_back({"moment2", v_, others_});
}

}  // namespace mylos::optimizer
