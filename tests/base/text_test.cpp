#include "base/text.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <limits>
#include <thread>

#include "base/error.hpp"
#include "base/stop_signal.hpp"

namespace mylos {
namespace {

TEST(Text, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("trian", "train"), 1) << "a swap of neighbours is one slip";
  EXPECT_EQ(edit_distance("same", "same"), 0);
}

TEST(Text, NearestName) {
  const std::vector<std::string> known{"steps", "batch", "sequence"};
  EXPECT_EQ(nearest_name("stesp", known), "steps");
  EXPECT_EQ(nearest_name("seq", known), "sequence");
  EXPECT_EQ(nearest_name("xylophone", known), "");
  EXPECT_EQ(nearest_name("a", {}), "");
}

TEST(Text, Bytes) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
  EXPECT_EQ(format_bytes(std::int64_t(16) << 30), "16.00 GiB");
}

TEST(Text, Durations) {
  EXPECT_EQ(format_duration(0.0123), "12 ms");
  EXPECT_EQ(format_duration(12.34), "12.3 s");
  EXPECT_EQ(format_duration(59.97), "1 min 00 s");
  EXPECT_EQ(format_duration(245), "4 min 05 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 00 min");
  EXPECT_EQ(format_duration(12000), "3 h 20 min");
  EXPECT_EQ(format_duration(187200), "2 d 04 h");
  EXPECT_EQ(format_duration(std::numeric_limits<double>::infinity()), "unknown");
}

TEST(Text, Counts) {
  EXPECT_EQ(format_count(7), "7");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(999.7), "1.00k");
  EXPECT_EQ(format_count(8030261248.0), "8.03B");
  EXPECT_EQ(format_count(134105856), "134M");
}

TEST(Text, Utf8) {
  EXPECT_TRUE(is_utf8("grüße \xF0\x9F\x8C\xBE"));
  EXPECT_FALSE(is_utf8("\xff"));
  EXPECT_FALSE(is_utf8("\xC3"));
  EXPECT_FALSE(is_utf8("\xC0\x80")) << "overlong";
  EXPECT_FALSE(is_utf8("\xED\xA0\x80")) << "surrogate";
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80")) << "beyond U+10FFFF";
}

TEST(Text, PrintableShowsWhatWouldSteerATerminal) {
  EXPECT_EQ(printable("ops/small, 95 % of \u00b5s \u00fc"), "ops/small, 95 % of \u00b5s \u00fc");
  EXPECT_EQ(printable("\x1b[2Ja\nb\tc\r\x7f"), "\\x1b[2Ja\\nb\\tc\\x0d\\x7f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3") << "bytes that are no UTF-8";
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m"),
            "\\xc2\\x9b31m")
      << "CSI in one sign";
  EXPECT_EQ(printable("\u202etxt"), "\\xe2\\x80\\xaetxt") << "right to left";
  EXPECT_EQ(printable(""), "");
}

TEST(StopSignal, SetsAFlagAndRestoresTheOldHandlers) {
  struct sigaction before = {};
  sigaction(SIGTERM, nullptr, &before);
  {
    StopSignal stop;
    EXPECT_EQ(StopSignal::received(), 0);
    EXPECT_THROW(StopSignal second, Error);
    raise(SIGTERM);
    raise(SIGTERM);
    raise(SIGINT);
    EXPECT_EQ(StopSignal::received(), SIGTERM) << "repeats in a moment are one wish";
    stack_t stack{};
    sigaltstack(nullptr, &stack);
    EXPECT_EQ(stack.ss_flags & SS_DISABLE, 0) << "handlers have a stack of their own";
  }
  struct sigaction after = {};
  sigaction(SIGTERM, nullptr, &after);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(StopSignalDeathTest, ASecondSignalLaterEndsTheProcess) {
  const auto twice = [] {
    StopSignal stop;
    raise(SIGTERM);
    std::this_thread::sleep_for(std::chrono::milliseconds(2100));
    raise(SIGTERM);
  };
  EXPECT_EXIT(twice(), testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace mylos
