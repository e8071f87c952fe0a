#include "data/loader.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "data/files.hpp"

namespace mylos::data {
namespace {

using test::error_of;
using namespace std::chrono_literals;

void stamp(std::int64_t step, std::int64_t micro_batch, HostBatch& b) {
  b.prepare(1, 15, DType::u16);
  b.step = step;
  b.micro_batch = micro_batch;
  const auto token = std::uint16_t(100 * step + micro_batch);
  for (int t = 0; t < 16; ++t) std::memcpy(b.tokens(0) + 2 * t, &token, 2);
}

TEST(Loader, GivesBatchesInOrderWithAndWithoutAThread) {
  for (const std::int64_t prefetch : {0, 1, 3, 64}) {
    Loader loader(stamp, 3, 7, prefetch);
    HostBatch b;
    for (std::int64_t step = 7; step < 50; ++step)
      for (std::int64_t m = 0; m < 3; ++m) {
        loader.next(b);
        ASSERT_EQ(b.step, step);
        ASSERT_EQ(b.micro_batch, m);
        ASSERT_EQ(widened(b).tokens, std::vector<std::int32_t>(15, std::int32_t(100 * step + m)));
      }
  }
}

TEST(Loader, SeveralThreadsGiveTheSameOrder) {
  for (const std::int64_t threads : {2, 3, 9}) {
    std::atomic<int> at_once = 0, most = 0;
    Loader loader(
        [&](std::int64_t s, std::int64_t m, HostBatch& b) {
          const int now = ++at_once;
          for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
          }
          std::this_thread::sleep_for(std::chrono::microseconds((s * 7919 + m * 104729) % 900));
          stamp(s, m, b);
          --at_once;
        },
        3, 5, 6, threads);
    HostBatch b;
    for (std::int64_t step = 5; step < 60; ++step)
      for (std::int64_t m = 0; m < 3; ++m) {
        loader.next(b);
        ASSERT_EQ(b.step, step);
        ASSERT_EQ(b.micro_batch, m);
      }
    EXPECT_GT(most, 1);
    EXPECT_LE(most, std::min<std::int64_t>(threads, 6));
  }
}

TEST(Loader, AnErrorOfOneOfSeveralThreadsComesInItsPlace) {
  for (int trial = 0; trial < 20; ++trial) {
    Loader loader(
        [](std::int64_t s, std::int64_t m, HostBatch& b) {
          if (s >= 4) fail("bad token in step {}", s);
          std::this_thread::sleep_for(std::chrono::microseconds((s + m) % 3 * 300));
          stamp(s, m, b);
        },
        1, 0, 8, 4);
    HostBatch b;
    for (int i = 0; i < 4; ++i) loader.next(b);
    EXPECT_EQ(b.step, 3);
    for (int i = 0; i < 3; ++i) EXPECT_HAS(error_of([&] { loader.next(b); }), "bad token in step 4");
  }
}

TEST(Loader, RunsAheadButNoFurtherThanAsked) {
  std::atomic<int> made = 0;
  Loader loader([&](std::int64_t s, std::int64_t m, HostBatch& b) { stamp(s, m, b), ++made; }, 1, 0, 4);
  const auto settle = [&](int expected) {
    for (int i = 0; i < 2000 && made < expected; ++i) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(made, expected);
  };
  settle(4);
  HostBatch b;
  loader.next(b);
  settle(5);
}

TEST(Loader, ASlowSourceShowsUpInTheWait) {
  for (const std::int64_t prefetch : {0, 2}) {
    Loader loader(
        [](std::int64_t s, std::int64_t m, HostBatch& b) { std::this_thread::sleep_for(20ms), stamp(s, m, b); }, 1, 0,
        prefetch);
    HostBatch b;
    for (int i = 0; i < 10; ++i) loader.next(b);
    EXPECT_GT(loader.wait_seconds(), 0.1);  // 0.2 s, less what a busy machine takes between construction and the calls
  }
}

TEST(Loader, ThrowsWhereTheBatchWouldHaveBeen) {
  for (const std::int64_t prefetch : {0, 1, 8}) {
    Loader loader(
        [](std::int64_t s, std::int64_t m, HostBatch& b) {
          if (s == 2) fail("bad token in step {}", s);
          stamp(s, m, b);
        },
        2, 0, prefetch);
    HostBatch b;
    for (int i = 0; i < 4; ++i) loader.next(b);
    EXPECT_EQ(b.step, 1);
    for (int i = 0; i < 3; ++i) EXPECT_HAS(error_of([&] { loader.next(b); }), "bad token in step 2");
  }
}

TEST(Loader, StopsCleanlyAtAnyTime) {
  for (int i = 0; i < 50; ++i) {
    Loader loader(stamp, 2, 0, 1 + i % 5, 1 + i % 3);
    HostBatch b;
    for (int k = 0; k < i % 7; ++k) loader.next(b);
  }
}

TEST(Loader, UsesMemoryAgain) {
  std::atomic<int> fresh = 0;
  Loader loader([&](std::int64_t s, std::int64_t m, HostBatch& b) { fresh += b.batch == 0, stamp(s, m, b); }, 1, 0, 3);
  HostBatch b;
  for (int i = 0; i < 200; ++i) loader.next(b);
  EXPECT_LE(fresh, 5);  // three in the queue, one being made, one in the caller's hands
}

TEST(Loader, RefusesImpossibleCounts) {
  EXPECT_HAS(error_of([] { Loader(stamp, 0, 0, 1); }), "0 micro-batches");
  EXPECT_HAS(error_of([] { Loader(nullptr, 1, 0, 1); }), "function");
}

}  // namespace
}  // namespace mylos::data
