// The run's log for machines: one JSON object a line, flushed at once, so a killed run keeps all but the line being written.
//
//   {"event":"start", ...}  {"event":"step","step":1,"loss":...}  {"event":"evaluation", ...}  {"event":"end","status":"finished"}
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "measure/train_record.hpp"

namespace mylos::train {

class JsonLog {
 public:
  // Makes the folder; replaces the file. Names: of what samples call by number.
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
};

}  // namespace mylos::train
