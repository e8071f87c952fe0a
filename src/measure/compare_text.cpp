#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "measure/compare_detail.hpp"

namespace mylos::measure::detail {

using Json = nlohmann::ordered_json;

namespace {

std::string get(const Json& j, const char* key) { return j.contains(key) ? printable(j[key].get<std::string>()) : ""; }

std::string time_text(double seconds) {
  if (seconds >= 1) return fmt::format("{:.4g} s", seconds);
  if (seconds >= 1e-3) return fmt::format("{:.4g} ms", 1e3 * seconds);
  return seconds >= 1e-6 ? fmt::format("{:.4g} us", 1e6 * seconds) : fmt::format("{:.4g} ns", 1e9 * seconds);
}

std::string percent(const Json& ratio) {
  return ratio.is_null() ? "?" : fmt::format("{:+.2f}%", 100 * (ratio.get<double>() - 1));
}

std::string interval(const Json& change) {
  // An interval that does not exist reaches from a ratio of 0 to one that JSON cannot hold.
  return change["high"].is_null() ? "none" : percent(change["low"]) + " to " + percent(change["high"]);
}

std::string side_text(const char* letter, const Json& side) {
  const std::string commit = get(side, "commit").substr(0, 12), call = get(side, "call");
  const auto rounds = side["rounds"].get<std::int64_t>();
  return fmt::format("{} {}{}: {}{}, {} ({}), {}{}\n", letter, printable(side["path"].get<std::string>()),
                     rounds == 1 ? "" : fmt::format(" ({} rounds)", rounds), commit,
                     get(side, "dirty") == "true" ? " with changes" : "", get(side, "device"), get(side, "backend"),
                     get(side, "created"), call.empty() ? "" : ", call " + call);
}

// One line a comparison, its reason behind it.
std::string row_text(const std::string& name, std::size_t width, const Json& row) {
  std::string line = fmt::format(
      "{:<{}} {:>11} {:>11} {:>8}  {:<20} {:>8}  {}", name, width, time_text(row["a"]["median_s"].get<double>()),
      time_text(row["b"]["median_s"].get<double>()), percent(row["time"]["ratio"]), interval(row["time"]),
      fmt::format("{:.2g}", row["time"]["p"].get<double>()), row["verdict"].get<std::string>());
  const std::string reason = get(row, "reason");
  return line + (reason.empty() ? "" : ": " + reason) + "\n";
}

std::string header_text(std::size_t width) {
  return fmt::format("\n{:<{}} {:>11} {:>11} {:>8}  {:<20} {:>8}  {}\n", "case", width, "A", "B", "B/A",
                     "95 % interval", "p", "verdict");
}

std::string bench_text(const Json& diff) {
  std::size_t width = 9;
  const auto name_of_row = [](const Json& row) {
    return get(row, "name") + (row.contains("name_b") ? " -> " + get(row, "name_b") : "");
  };
  for (const Json& row : diff["cases"]) width = std::max(width, name_of_row(row).size());
  std::string out = header_text(width);
  std::map<std::string, int> counts;
  for (const Json& row : diff["cases"]) {
    out += row_text(name_of_row(row), width, row);
    ++counts[row["verdict"].get<std::string>()];
  }
  for (const Json& row : diff["skipped"])
    out += fmt::format("{:<{}} skipped in {}: {}\n", get(row, "name"), width, get(row, "side"), get(row, "why"));
  for (const auto& [key, letter] : {std::pair("only_a", 'A'), std::pair("only_b", 'B')}) {
    if (diff[key].empty()) continue;
    out += fmt::format("only in {}: {} cases, the first is {}\n", letter, diff[key].size(),
                       printable(diff[key][0].get<std::string>()));
  }
  out += fmt::format("\n{} SAME, {} FASTER, {} SLOWER, {} UNSURE; SAME: the whole interval within +-{:.3g} %\n",
                     counts["SAME"], counts["FASTER"], counts["SLOWER"], counts["UNSURE"],
                     100 * diff["threshold"].get<double>());
  return out;
}

std::string train_text(const Json& diff) {
  std::string out = header_text(12) + row_text("time a token", 12, diff["step_time"]);
  const Json& loss = diff["loss"];
  if (loss["steps"] == 0) {
    out += "\nloss: no step in common\n";
  } else if (loss["identical"].get<bool>()) {
    out += fmt::format("\nloss: equal to the bit in all {} common steps\n", loss["steps"].get<std::int64_t>());
  } else {
    out += fmt::format(
        "\nloss over {} common steps: largest difference {:+.3g} at step {}; mean of the last {}: {:.5f} in A, {:.5f} "
        "in B ({:+.2g})\n",
        loss["steps"].get<std::int64_t>(), loss["largest_difference"].get<double>(),
        loss["at_step"].get<std::int64_t>(), loss["last"].get<std::int64_t>(), loss["mean_of_last_a"].get<double>(),
        loss["mean_of_last_b"].get<double>(),
        loss["mean_of_last_b"].get<double>() - loss["mean_of_last_a"].get<double>());
  }
  out += diff["config"].empty() ? "configuration: equal\n" : "configuration:\n";
  const auto value = [](const Json& row, const char* side) {
    const std::string text = get(row, side);
    return text.empty() ? "(absent)" : text;
  };
  for (const Json& row : diff["config"])
    out += fmt::format("  {}: {} in A, {} in B\n", get(row, "key"), value(row, "a"), value(row, "b"));
  return out;
}

}  // namespace

std::string diff_text(const Json& diff) {
  std::string out = side_text("A", diff["a"]) + side_text("B", diff["b"]);
  for (const Json& warning : diff["warnings"]) out += "warning: " + printable(warning.get<std::string>()) + "\n";
  out += diff["kind"] == "bench" ? bench_text(diff) : train_text(diff);
  out.pop_back();  // the caller ends the last line, as it does for the JSON
  return out;
}

}  // namespace mylos::measure::detail
