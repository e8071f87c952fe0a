#include "optimizer/cost.hpp"

#include "kernels/muon/muon.hpp"

namespace mylos::optimizer {

UpdateCost update_cost(const OptimizerConfig& c, const Parameters& p, DType storage) {
  const bool low = storage == DType::bf16 && c.master == Master::exact;
  const double moment = double(size_of(c.moments)), total = double(p.total);
  UpdateCost cost;
  cost.state_bytes = low ? 2.0 * total * double(size_of(DType::u16)) : 0.0;
  switch (c.name) {
    case Rule::adamw:
      cost.state_bytes += 2.0 * total * 2.0 * moment;
      break;
    case Rule::lion:
    case Rule::sgd:
      cost.state_bytes += 2.0 * total * moment;
      break;
    case Rule::schedule_free:
      cost.state_bytes += 2.0 * total * (moment + double(low ? size_of(DType::f32) : size_of(storage)));
      break;
    case Rule::muon: {
      const double hidden = double(p.hidden.size());
      // The direction is written by momentum and read by apply.
      cost.state_bytes +=
          2.0 * hidden * (moment + double(size_of(c.muon_dtype))) + 2.0 * (total - hidden) * 2.0 * moment;
      cost.newton_schulz_calls = std::int64_t(p.matrices.size());
      for (const MatrixPart& m : p.matrices) {
        cost.newton_schulz_flops += kernels::orthogonalize_flops(m.rows, m.columns, int(c.muon_iterations));
        cost.newton_schulz_bytes +=
            kernels::orthogonalize_bytes(m.rows, m.columns, c.muon_dtype, int(c.muon_iterations));
      }
      break;
    }
  }
  return cost;
}

}  // namespace mylos::optimizer
