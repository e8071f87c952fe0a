#include "train/progress.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace mylos::train {

std::string describe(const StepLine& l) {
  std::string s = fmt::format("step {:>{}}/{}  loss {:.4f}  grad {:.3f}  lr {:.2e}  {:>6} tok/s", l.step,
                              fmt::formatted_size("{}", l.steps), l.steps, l.loss, l.grad_norm, l.learning_rate,
                              format_count(l.tokens_per_s));
  if (l.mfu >= 0) s += fmt::format("  mfu {:.1f}%", 100 * l.mfu);
  s += fmt::format("  data wait {:.1f}%", 100 * l.data_wait_share);
  if (l.step < l.steps) s += "  ETA " + format_duration(l.eta_s);
  return s;
}

ProgressWriter::ProgressWriter(std::ostream* out, Mode mode, std::int64_t log_interval)
    : out_(out), mode_(out ? mode : Mode::off), log_interval_(log_interval) {}

ProgressWriter::~ProgressWriter() { end_live_line(); }

void ProgressWriter::end_live_line() {
  if (live_width_ > 0) *out_ << '\n' << std::flush;
  live_width_ = 0;
}

void ProgressWriter::text(const std::string& text) {
  if (mode_ == Mode::off) return;
  end_live_line();
  *out_ << text << (text.ends_with('\n') ? "" : "\n") << std::flush;
}

bool ProgressWriter::due(std::int64_t step, bool last) const {
  return mode_ != Mode::off && (last || step == 1 || step % log_interval_ == 0 || mode_ == Mode::live);
}

void ProgressWriter::step(const StepLine& line, bool last) {
  if (!due(line.step, last)) return;
  const std::string s = describe(line);
  if (mode_ == Mode::lines) {
    *out_ << s << '\n' << std::flush;
    return;
  }
  // Spaces wipe what a longer line before left behind.
  *out_ << '\r' << s << std::string(s.size() < live_width_ ? live_width_ - s.size() : 0, ' ') << std::flush;
  live_width_ = s.size();
  if (last || line.step % log_interval_ == 0) end_live_line();
}

}  // namespace mylos::train
