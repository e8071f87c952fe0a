#include "train/progress.hpp"

#include <gtest/gtest.h>

#include <sstream>

namespace mylos::train {
namespace {

StepLine line(std::int64_t step) {
  return {.step = step,
          .steps = 100,
          .loss = 3.25,
          .grad_norm = 0.5,
          .learning_rate = 1e-3,
          .tokens_per_s = 12345,
          .data_wait_share = 0.015,
          .mfu = -1,
          .eta_s = 245};
}

TEST(Progress, ALineSaysWhatMatters) {
  EXPECT_EQ(describe(line(7)),
            "step   7/100  loss 3.2500  grad 0.500  lr 1.00e-03   12.3k tok/s  data wait 1.5%  ETA 4 min 05 s");
  StepLine known = line(100);
  known.mfu = 0.423;
  EXPECT_EQ(describe(known),
            "step 100/100  loss 3.2500  grad 0.500  lr 1.00e-03   12.3k tok/s  mfu 42.3%  data wait 1.5%")
      << "no ETA at the end";
}

TEST(Progress, LinesComeAtTheInterval) {
  std::ostringstream out;
  ProgressWriter progress(&out, ProgressWriter::Mode::lines, 10);
  for (std::int64_t s = 1; s <= 25; ++s) progress.step(line(s), s == 25);
  const std::string text = out.str();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 4) << "steps 1, 10, 20 and the last";
  EXPECT_EQ(text.find('\r'), std::string::npos);
}

TEST(Progress, ALiveLineIsRewrittenAndEndsBeforeText) {
  std::ostringstream out;
  {
    ProgressWriter progress(&out, ProgressWriter::Mode::live, 10);
    progress.step(line(1), false);
    StepLine shorter = line(2);
    shorter.eta_s = 1;
    progress.step(shorter, false);
    progress.text("evaluation");
    progress.step(line(3), false);
  }
  const std::string text = out.str(), first = describe(line(1));
  EXPECT_EQ(text.find("\r" + first + "\r"), 0u);
  EXPECT_NE(text.find("ETA 1.0 s   "), std::string::npos) << "what the longer line left is wiped";
  EXPECT_NE(text.find("\nevaluation\n"), std::string::npos);
  EXPECT_EQ(text.back(), '\n');
}

TEST(Progress, OffIsSilent) {
  std::ostringstream out;
  ProgressWriter progress(&out, ProgressWriter::Mode::off, 1);
  progress.text("x");
  progress.step(line(1), true);
  EXPECT_EQ(out.str(), "");
}

}  // namespace
}  // namespace mylos::train
