#include "checkpoint/isolate.hpp"

#include <signal.h>
#include <unistd.h>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"

namespace mylos::checkpoint {
namespace {

using test::error_of;

TEST(Isolate, HandsTheTextBack) {
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(run_isolated("f", 30, [&] { return large + "end"; }), large + "end");
  EXPECT_EQ(run_isolated("f", 30, [] { return std::string(); }), "");
}

TEST(Isolate, ThrowsWhatTheWorkThrew) {
  EXPECT_EQ(error_of([] { run_isolated("f", 30, []() -> std::string { fail("value {} is above {}", 3, 2); }); }),
            "value 3 is above 2");
}

TEST(Isolate, ACrashIsAnError) {
  for (const int s : {SIGSEGV, SIGABRT, SIGKILL, SIGFPE}) {
    const std::string message = error_of([&] {
      run_isolated("bad.h5", 30, [&] {
        raise(s);
        return std::string("unreachable");
      });
    });
    EXPECT_CONTAINS(message, "bad.h5 is damaged");
  }
  EXPECT_CONTAINS(error_of([] { run_isolated("bad.h5", 30, []() -> std::string { _exit(0); }); }), "bad.h5 is damaged");
}

TEST(Isolate, AHangIsAnError) {
  EXPECT_CONTAINS(error_of([] {
                    run_isolated("slow.h5", 0.2, []() -> std::string {
                      for (;;) pause();
                    });
                  }),
                  "slow.h5 was not read within");
}

TEST(Isolate, ChangesNothingInTheParent) {
  int value = 1;
  run_isolated("f", 30, [&] {
    value = 2;
    return std::string();
  });
  EXPECT_EQ(value, 1);
}

}  // namespace
}  // namespace mylos::checkpoint
