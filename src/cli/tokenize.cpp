#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "base/text.hpp"
#include "cli/commands.hpp"

namespace mylos::cli {
namespace {

// How far it is, on stderr: a bar that is drawn over again on a terminal, else a line every half minute.
class ProgressLine {
 public:
  ~ProgressLine() {
    if (drawn_) std::cerr << "\r\033[K" << std::flush;
  }
  void operator()(const data::TokenizeProgress& p) {
    const double now = seconds();
    if (phase_ != p.phase) {
      phase_ = p.phase;
      begin_ = shown_ = now;
    }
    if (now - shown_ < (terminal_ ? 0.2 : 30.0)) return;
    shown_ = now;
    const double share = p.bytes_total > 0 ? double(p.bytes_done) / double(p.bytes_total) : 1;
    const double speed = double(p.bytes_done - p.bytes_before) / std::max(now - begin_, 1e-3);
    const std::string left = speed > 0 ? format_duration(double(p.bytes_total - p.bytes_done) / speed) : "?";
    std::string line = fmt::format("{} {:3.0f}%  {} of {}  {:.1f} MB/s  {} left", p.phase, 100 * share,
                                   format_bytes(p.bytes_done), format_bytes(p.bytes_total), speed / 1e6, left);
    if (p.tokens > 0) line += fmt::format("  {} tokens", format_count(double(p.tokens)));
    if (terminal_) {
      constexpr int kWidth = 24;
      const int full = int(kWidth * share);
      std::cerr << fmt::format("\r[{:#<{}}{:.<{}}] {}\033[K", "", full, "", kWidth - full, line) << std::flush;
      drawn_ = true;
    } else {
      std::cerr << line << '\n';
    }
  }

 private:
  static double seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  bool terminal_ = ::isatty(2) == 1, drawn_ = false;
  std::string phase_;
  double begin_ = 0, shown_ = 0;
};

}  // namespace

int tokenize(data::TokenizeOptions options) {
  data::TokenizeResult result;
  {
    ProgressLine line;
    options.progress = [&](const data::TokenizeProgress& p) { line(p); };
    result = data::tokenize(options);
  }
  if (result.resumed_at > 0)
    std::cout << fmt::format("went on     after {} documents of a run that had not ended\n", result.resumed_at);
  std::cout << fmt::format("tokenizer   {} ({} tokens)\n", result.tokenizer, result.vocab);
  if (!result.lossy.empty()) std::cout << "lossy       " << result.lossy << '\n';
  for (const auto& [name, split] : {std::pair{"train", &result.train}, std::pair{"validation", &result.validation}}) {
    if (split->shards.empty()) continue;
    std::cout << fmt::format("{:<11} {} documents, {} tokens of {} text ({:.2f} bytes a token)\n", name,
                             split->documents, split->tokens, format_bytes(split->text_bytes),
                             double(split->text_bytes) / double(split->tokens));
    for (const std::string& shard : split->shards) std::cout << "            " << shard << '\n';
  }
  if (!result.skipped.empty())
    std::cout << fmt::format("left out    {} files that are not UTF-8\n", result.skipped.size());
  return kDone;
}

}  // namespace mylos::cli
