#include "base/pattern.hpp"

#include <gtest/gtest.h>

#include <chrono>

#include "base/usage.hpp"

namespace mylos {
namespace {

std::string why_not(const std::string& pattern) {
  try {
    Pattern{pattern};
  } catch (const UsageError& e) {
    return e.what();
  }
  return "";
}

TEST(Pattern, IsFoundAnywhereInAName) {
  const Pattern p("ops/7b/.*/bf16");
  EXPECT_TRUE(p.found_in("ops/7b/swiglu_forward/bf16"));
  EXPECT_TRUE(p.found_in("more/ops/7b/norm/bf16/and"));
  EXPECT_FALSE(p.found_in("ops/70b/norm/bf16"));
  EXPECT_TRUE(Pattern("").found_in("anything"));
  EXPECT_TRUE(Pattern("^data/(packing|memcpy)$").found_in("data/memcpy"));
  EXPECT_FALSE(Pattern("^data/(packing|memcpy)$").found_in("data/memcpy2"));
  EXPECT_TRUE(Pattern("[[:digit:]]{2}\\.h").found_in("12.h"));
}

TEST(Pattern, SaysWhatIsWrongWithOne) {
  EXPECT_NE(why_not("(").find("'(' is no regular expression: missing )"), std::string::npos) << why_not("(");
  EXPECT_NE(why_not("a**b["), "");
  EXPECT_NE(why_not("(a)\\1"), "") << "back references take exponential time";
  EXPECT_NE(why_not("\xff"), "") << "not UTF-8";
  EXPECT_NE(why_not(std::string(100'000, 'a')).find("100000 bytes is too long; at most 1000"), std::string::npos);
  EXPECT_NE(why_not("((((a{99}){99}){99}){99})"), "") << "needs memory without end";
  EXPECT_NE(why_not("\\pN{900}(\\pL{900})"), "");
}

// These took std::regex exponential time, or its stack.
TEST(Pattern, TakesLinearTimeWhateverItIs) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string name(200'000, 'a');
  for (const auto& [hostile, found] :
       {std::pair("(((((a*)*)*)*)*)*$", true), std::pair("(a|a)*b", false), std::pair("(a*)*b", false),
        std::pair("(.*)*(.*)*(.*)*x", false), std::pair("((a|aa)+)+b", false), std::pair("(x+x+)+y", false),
        std::pair("(a?){60}a{60}b", false)})
    EXPECT_EQ(Pattern(hostile).found_in(name), found) << hostile;
  std::string nested = "a";
  for (int i = 0; i < 300; ++i) nested = "(" + nested + ")*";
  EXPECT_TRUE(Pattern(nested).found_in(name));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  EXPECT_LT(spent.count(), 10);
}

}  // namespace
}  // namespace mylos
