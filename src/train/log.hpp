// The run's log for machines: one JSON object a line, flushed at once, so a killed run keeps all but the line being written.
// It is the one output that a run has open from its first step to its last, and so what keeps another run from the same files.
//
//   {"event":"start", ...}  {"event":"step","step":1,"loss":...}  {"event":"evaluation", ...}  {"event":"end","status":"finished"}
#pragma once

#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "base/write_lock.hpp"
#include "measure/train_record.hpp"

namespace mylos::train {

class JsonLog {
 public:
  static constexpr const char* kWork = "`mylos train`";  // that the file is held for

  // Makes the folder; replaces the file, and holds it (base/write_lock.hpp). Names: of what samples call by number.
  JsonLog(const std::string& path, std::vector<std::string> sources, std::vector<std::string> validation_sets);

  void start(std::int64_t parameters, std::int64_t steps, const std::string& bundle);
  void step(const measure::StepSample& sample);
  void evaluation(const measure::EvaluationSample& sample);
  void end(const std::string& status, std::int64_t steps);

 private:
  void line(const std::string& json);

  std::string path_;
  std::vector<std::string> sources_, validation_sets_;
  std::ofstream out_;
  std::optional<WriteLock> lock_;
};

}  // namespace mylos::train
