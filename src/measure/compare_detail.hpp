// Shared by the parts of diff(): what each kind adds to its JSON, and the text that is made from that.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "measure/compare_bundles.hpp"
#include "measure/compare_sides.hpp"

namespace mylos::measure::detail {

void compare_bench(const Side& a, const Side& b, const DiffOptions& options, nlohmann::ordered_json& out);
void compare_train(const Side& a, const Side& b, const DiffOptions& options, nlohmann::ordered_json& out);
// Null for what JSON cannot hold.
nlohmann::ordered_json number(double value);
nlohmann::ordered_json to_json(const Comparison& comparison);
std::string diff_text(const nlohmann::ordered_json& diff);

}  // namespace mylos::measure::detail
