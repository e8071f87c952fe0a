// What a run tells people, on one stream: a header, a line every log_interval steps (or one line that is rewritten), evaluations.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>

namespace mylos::train {

struct StepLine {
  std::int64_t step = 0, steps = 0;
  double loss = 0, grad_norm = 0, learning_rate = 0;
  double tokens_per_s = 0;     // over the steps since the last line
  double data_wait_share = 0;  // of the time, 0 to 1
  double mfu = -1;             // mfu_causal, 0 to 1; below 0: not known
  double eta_s = 0;
};

std::string describe(const StepLine& line);

class ProgressWriter {
 public:
  enum class Mode { off, lines, live };
  ProgressWriter(std::ostream* out, Mode mode, std::int64_t log_interval);
  ~ProgressWriter();

  void text(const std::string& text);  // whole lines
  // Called each step: shows it when it is due. last: always shown.
  void step(const StepLine& line, bool last);
  bool due(std::int64_t step, bool last) const;

 private:
  void end_live_line();

  std::ostream* out_;
  Mode mode_;
  std::int64_t log_interval_;
  std::size_t live_width_ = 0;  // of what stands on the live line; 0: nothing
};

}  // namespace mylos::train
