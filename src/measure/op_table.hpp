// Where the time of a step goes: the times of an op clock beside what the FLOP ledger says each op computes and moves.
//
// Rows are those of the ledger, in its order; an op that was measured but is not in the ledger follows with no FLOPs and bytes. All
// figures are of one step (the mean over the steps measured). The roofline of a row is the longer of FLOPs / peak and
// bytes / memory bandwidth by the device's data sheet (measure/mfu.hpp); a device that is not in that table has none.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/mfu.hpp"
#include "measure/op_clock.hpp"
#include "model/flops.hpp"

namespace mylos::measure {

enum class OpClass { products, attention, memory_bound, optimizer };
const char* name_of(OpClass c);
OpClass op_class(std::string_view phase, std::string_view op);  // of a region

struct OpRow {
  model::OpCost cost;  // of one step
  double calls = 0;    // measured, of one step
  double seconds = 0;
  double roofline_s = 0;       // 0: not known
  bool compute_bound = false;  // which of its two terms is the roofline; by the op's class when there is none
  OpClass op_class() const;
  double share(double step_s) const { return seconds / step_s; }
  double of_roofline() const { return seconds > 0 ? roofline_s / seconds : 0; }  // 1 is the best there can be
};

struct OpTable {
  std::vector<OpRow> rows;
  double step_s = 0;     // device time of a step
  double between_s = 0;  // of it outside all ops
};
OpTable op_table(const std::vector<OpTime>& times, std::int64_t steps, double step_s,
                 const std::vector<model::OpCost>& ledger, const std::optional<DevicePeak>& peak);

// Longest first, then a line a class and what lies between ops.
std::string to_text(const OpTable& table);
nlohmann::ordered_json to_json(const OpTable& table);

}  // namespace mylos::measure
