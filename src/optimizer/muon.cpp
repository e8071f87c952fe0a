#include "optimizer/muon.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

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
  std::int64_t other_elements = 0;
  for (const MatrixPart& p : parameters.matrices) {
    const FlatRange whole{p.offset, p.end()}, mine = own(whole);
    if (mine.size() == 0) continue;
    check(
        mine.size() == whole.size(),
        "a shard of elements {} to {} cuts the matrix of elements {} to {}, which Muon orthogonalises as a whole; let "
        "shards begin and end between matrices",
        shard().begin, shard().end, whole.begin, whole.end);
    matrices_.push_back(p);
  }
  for (const FlatRange& r : {own({0, hidden.begin}), own({hidden.end, parameters.total})}) {
    if (r.size() == 0) continue;
    others_.push_back(r);
    other_elements += r.size();
  }
  momentum_ = take(config_.moments, hidden_.size(), arena);
  m_ = take(config_.moments, other_elements, arena);
  v_ = take(config_.moments, other_elements, arena);
  std::stable_sort(matrices_.begin(), matrices_.end(), [](const MatrixPart& a, const MatrixPart& b) {
    return std::pair(a.rows, a.columns) < std::pair(b.rows, b.columns);
  });
  std::int64_t directions = 0, workspace = 0;
  for (std::size_t i = 0; i < matrices_.size(); i += group_at(i)) {
    const auto count = std::int64_t(group_at(i)), rows = matrices_[i].rows, columns = matrices_[i].columns;
    directions = std::max(directions, count * rows * columns);
    workspace = std::max(workspace, kernels::orthogonalize_workspace(count, rows, columns, config_.muon_dtype));
  }
  directions_ = take(config_.muon_dtype, directions, arena);
  workspace_ = take(DType::u8, workspace, arena);
}

// How many matrices from `first` on, all of its shape, go together: equal parts of the run of that shape.
std::size_t Muon::group_at(std::size_t first) const {
  const MatrixPart& like = matrices_[first];
  std::size_t begin = first, end = first;
  const auto alike = [&](std::size_t i) {
    return matrices_[i].rows == like.rows && matrices_[i].columns == like.columns;
  };
  while (begin > 0 && alike(begin - 1)) --begin;
  while (end < matrices_.size() && alike(end)) ++end;
  const auto most = std::size_t(std::max<std::int64_t>(1, kTogether / (like.rows * like.columns)));
  const std::size_t run = end - begin, groups = (run + most - 1) / most, each = (run + groups - 1) / groups;
  return std::min(each, end - first);
}

void Muon::start(const Stream& stream, const Tensor&) {
  for (const Tensor& t : {momentum_, m_, v_})
    if (t) fill_zero(stream, t);
}

template <class F>
void Muon::matrix(const Update& u, const MatrixPart& p, const F& f) const {
  each_part(u, {p.offset, p.end()},
            [&](const kernels::FlatStep& step, const kernels::FlatOperands& o, const FlatRange& r) {
              check(r.size() == p.rows * p.columns, "weight decay ends at element {}, within the matrix from {} to {}",
                    parameters_.decay_end, p.offset, p.end());
              f(step, o, r);
            });
}

void Muon::orthogonalize(const Stream& stream, std::size_t count, std::int64_t rows, std::int64_t columns) {
  const auto work = [&] {
    kernels::orthogonalize(
        stream,
        directions_.slice(0, 0, std::int64_t(count) * rows * columns).reshape({std::int64_t(count), rows, columns}),
        int(config_.muon_iterations), workspace_);
  };
  const std::array<std::int64_t, 3> kind{std::int64_t(count), rows, columns};
  const auto known = recorded_.find(kind);
  if (!graphs_ || !Graph::available()) return work();
  if (known == recorded_.end()) {
    recorded_.emplace(kind, std::nullopt);
    return work();
  }
  if (!known->second) known->second.emplace(stream, work);
  known->second->launch(stream);
}

// f(first, count) for each run of matrices of the group that follow each other in memory, as q, k and v do: the updates of one are one launch.
template <class F>
void Muon::each_run(std::size_t first, std::size_t count, const F& f) const {
  for (std::size_t begin = first; begin < first + count;) {
    std::size_t end = begin + 1;
    while (end < first + count && matrices_[end].offset == matrices_[end - 1].end()) ++end;
    f(begin, end - begin);
    begin = end;
  }
}

void Muon::group(const Update& u, std::size_t first, std::size_t count) {
  const std::int64_t rows = matrices_[first].rows, columns = matrices_[first].columns, size = rows * columns;
  const auto directions = [&](std::size_t k, std::size_t n) {
    return directions_.slice(0, std::int64_t(k - first) * size, std::int64_t(k - first + n) * size);
  };
  const auto run = [&](std::size_t k, std::size_t n) {
    return MatrixPart{matrices_[k].offset, std::int64_t(n) * rows, columns};
  };
  {
    const Region region(u.stream, "optimizer", "optimizer");
    each_run(first, count, [&](std::size_t k, std::size_t n) {
      matrix(u, run(k, n), [&](const kernels::FlatStep& step, const kernels::FlatOperands& o, const FlatRange& r) {
        kernels::muon_momentum(u.stream,
                               {.flat = step, .momentum = float(config_.momentum), .nesterov = config_.nesterov}, o,
                               window(momentum_, hidden_.begin, r), directions(k, n));
      });
    });
  }
  {
    const Region region(u.stream, "optimizer", "newton_schulz");
    orthogonalize(u.stream, count, rows, columns);
  }
  const Region region(u.stream, "optimizer", "optimizer");
  each_run(first, count, [&](std::size_t k, std::size_t n) {
    matrix(u, run(k, n), [&](const kernels::FlatStep& step, kernels::FlatOperands o, const FlatRange&) {
      o.g = directions(k, n);
      kernels::muon_apply(u.stream, step, o, float(muon_factor(config_.muon_scale, rows, columns)));
    });
  });
}

void Muon::rule(const Update& u) {
  for (std::size_t i = 0; i < matrices_.size(); i += group_at(i)) group(u, i, group_at(i));
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
