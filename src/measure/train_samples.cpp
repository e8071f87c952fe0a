#include "measure/train_samples.hpp"

#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "base/error.hpp"
#include "measure/agree.hpp"

namespace mylos::measure {
namespace {

using checkpoint::Reader;

constexpr double kMost = 0x1p53;  // integers that an f64 holds exactly
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Who may leave a value unknown or not finite.
enum class Unknown { never, peer, failed_or_peer, always };
enum class Order { any, rises, does_not_fall };

struct Column {
  const char* path;
  double low;       // values are at least that,
  bool low_itself;  // or above it
  bool whole = false;
  Unknown unknown = Unknown::never;
  Order order = Order::any;
  bool may_be_absent = false;
};

constexpr Column kSteps[] = {
    {.path = "/samples/steps/step", .low = 1, .low_itself = true, .whole = true, .order = Order::rises},
    {.path = "/samples/steps/loss", .low = -kInfinity, .low_itself = false, .unknown = Unknown::failed_or_peer},
    {.path = "/samples/steps/grad_norm", .low = 0, .low_itself = true, .unknown = Unknown::failed_or_peer},
    {.path = "/samples/steps/learning_rate", .low = 0, .low_itself = true, .unknown = Unknown::peer},
    {.path = "/samples/steps/tokens", .low = 1, .low_itself = true, .whole = true},
    {.path = "/samples/steps/valid_tokens", .low = 0, .low_itself = true, .whole = true},
    {.path = "/samples/steps/step_time", .low = 0, .low_itself = false},
    {.path = "/samples/steps/data_wait", .low = 0, .low_itself = true},
    {.path = "/samples/steps/tokens_per_s", .low = 0, .low_itself = false},
    {.path = "/samples/steps/time",
     .low = 0,
     .low_itself = true,
     .unknown = Unknown::always,
     .order = Order::does_not_fall,
     .may_be_absent = true},
};
constexpr Column kEvaluations[] = {
    {.path = "/samples/evaluation/step", .low = 0, .low_itself = true, .whole = true, .order = Order::does_not_fall},
    {.path = "/samples/evaluation/loss", .low = -kInfinity, .low_itself = false, .unknown = Unknown::failed_or_peer},
    {.path = "/samples/evaluation/bits_per_byte", .low = -kInfinity, .low_itself = false, .unknown = Unknown::always},
    {.path = "/samples/evaluation/tokens", .low = 1, .low_itself = true, .whole = true},
    {.path = "/samples/evaluation/time", .low = 0, .low_itself = true},
};
constexpr Column kGpu[] = {
    {.path = "/telemetry/gpu/time", .low = 0, .low_itself = true, .order = Order::does_not_fall},
    {.path = "/telemetry/gpu/energy",
     .low = 0,
     .low_itself = true,
     .unknown = Unknown::always,
     .order = Order::does_not_fall},
    {.path = "/telemetry/gpu/sm_clock", .low = 0, .low_itself = true, .unknown = Unknown::always},
    {.path = "/telemetry/gpu/throttle_reasons", .low = 0, .low_itself = true, .whole = true, .unknown = Unknown::peer},
    {.path = "/telemetry/gpu/power", .low = 0, .low_itself = true, .unknown = Unknown::always, .may_be_absent = true},
    {.path = "/telemetry/gpu/memory_clock",
     .low = 0,
     .low_itself = true,
     .unknown = Unknown::always,
     .may_be_absent = true},
    {.path = "/telemetry/gpu/memory_used",
     .low = 0,
     .low_itself = true,
     .unknown = Unknown::always,
     .may_be_absent = true},
};

class Check {
 public:
  Check(const Reader& file, const TrainKind& kind, std::vector<Finding>& findings)
      : file_(file), kind_(kind), findings_(findings) {}

  bool sound() const { return sound_; }

  // Equally long columns; one that is missing or wrong is empty.
  std::map<std::string, std::vector<double>> table(std::span<const Column> columns) {
    std::map<std::string, std::vector<double>> values;
    std::size_t rows = 0;
    for (const Column& c : columns) {
      const std::string path = c.path, name = path.substr(path.rfind('/') + 1);
      if (c.may_be_absent && !file_.has_dataset(path)) continue;
      if (!file_.has_dataset(path)) {
        error(path, "dataset is missing");
        continue;
      }
      try {
        std::vector<double> column = file_.reals(path);
        check_values(c, column);
        if (values.empty()) rows = column.size();
        if (column.size() != rows) sound_ = false;  // the rule of all tables reports it
        values[name] = std::move(column);
      } catch (const Error&) {  // damaged, or no f64: the rules of all datasets report it
        sound_ = false;
      }
    }
    return values;
  }

  void error(const std::string& where, const std::string& what) {
    findings_.push_back({true, where, what});
    sound_ = false;
  }

 private:
  bool may_be_unknown(const Column& c) const {
    switch (c.unknown) {
      case Unknown::never:
        return false;
      case Unknown::peer:
        return kind_.is_peer;
      case Unknown::failed_or_peer:
        return kind_.is_peer || kind_.failed;
      case Unknown::always:
        break;
    }
    return true;
  }

  // The first wrong row says what is wrong with the column.
  void check_values(const Column& c, const std::vector<double>& values) {
    double before = -kInfinity;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double v = values[i];
      const bool overflow_of_failed = std::isinf(v) && kind_.failed && c.unknown == Unknown::failed_or_peer;
      if ((std::isnan(v) && may_be_unknown(c)) || overflow_of_failed) continue;
      const bool in_range = std::isfinite(v) && (c.low_itself ? v >= c.low : v > c.low) && (!c.whole || v < kMost);
      if (!in_range || (c.whole && v != std::floor(v))) {
        const std::string bound = std::isfinite(c.low)
                                      ? fmt::format("{} {}", c.low_itself ? "at least" : "above", c.low)
                                      : std::string("a number");
        return error(c.path, fmt::format("row {} is {}; it must be {}{}{}", i, v, bound, c.whole ? ", whole" : "",
                                         c.unknown == Unknown::failed_or_peer ? ", or the run must say that it failed"
                                                                              : " and finite"));
      }
      if (c.order == Order::rises && v <= before)
        return error(c.path, fmt::format("row {} is step {}, after step {}: steps must rise", i, v, before));
      if (c.order == Order::does_not_fall && v < before)
        return error(c.path, fmt::format("row {} is {}, after {}: it must not fall", i, v, before));
      before = v;
    }
  }

  const Reader& file_;
  const TrainKind& kind_;
  std::vector<Finding>& findings_;
  bool sound_ = true;
};

// Whole columns only.
void check_steps(Check& check, std::map<std::string, std::vector<double>>& steps, bool is_peer) {
  const std::vector<double>&tokens = steps["tokens"], &valid = steps["valid_tokens"], &times = steps["step_time"],
        &rates = steps["tokens_per_s"], &ends = steps["time"];
  const std::string at = "/samples/steps/";
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (valid[i] > tokens[i])
      return check.error(at + "valid_tokens",
                         fmt::format("row {} is {}, more than its {} tokens", i, valid[i], tokens[i]));
    if (!agree(rates[i], tokens[i] / times[i]))
      return check.error(at + "tokens_per_s", fmt::format("row {} is {}; its tokens over its step_time are {}", i,
                                                          rates[i], tokens[i] / times[i]));
    // Ends are on the host's clock, times of steps on the device's; a peer's host hears of an end up to a step late.
    const double before = i == 0 ? 0 : ends.empty() ? kInfinity : ends[i - 1];
    if (!is_peer && !ends.empty() && ends[i] - before < times[i] * (1 - 1e-3) - 1e-3)
      return check.error(at + "time", fmt::format("row {} ends at {} s, {} s after the step before, but took {} s", i,
                                                  ends[i], ends[i] - before, times[i]));
  }
}

}  // namespace

TrainSamples read_train_samples(const Reader& file, const TrainKind& kind, std::vector<Finding>& findings) {
  TrainSamples s;
  Check check(file, kind, findings);
  auto steps = check.table(kSteps);
  if (check.sound()) {
    if (steps["time"].empty()) steps["time"].assign(steps["step"].size(), std::nan(""));
    check_steps(check, steps, kind.is_peer);
  }
  s.loss = steps["loss"];
  s.tokens = steps["tokens"];
  s.step_time = steps["step_time"];
  s.data_wait = steps["data_wait"];
  s.tokens_per_s = steps["tokens_per_s"];
  s.time = steps["time"];
  if (file.has_group("/samples/evaluation")) {
    auto evaluations = check.table(kEvaluations);
    s.evaluation_loss = evaluations["loss"];
    s.evaluation_bits_per_byte = evaluations["bits_per_byte"];
  }
  s.has_gpu = file.has_group("/telemetry/gpu");
  if (s.has_gpu) {
    auto gpu = check.table(kGpu);
    s.gpu_time = gpu["time"];
    s.gpu_energy = gpu["energy"];
    s.gpu_sm_clock = gpu["sm_clock"];
    s.gpu_throttle_reasons = gpu["throttle_reasons"];
    s.gpu_memory_used = gpu["memory_used"];
  }
  return s;
}

}  // namespace mylos::measure
