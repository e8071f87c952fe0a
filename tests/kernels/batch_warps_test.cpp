// What a GPU's warps do when they widen a micro-batch, on a CPU: a thread is a lane, and what lanes tell each other goes
// through memory with a barrier before and after.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include <barrier>
#include <thread>

#include "kernels/batch/widen_warps_gpu.hpp"
#include "random_batch.hpp"

namespace mylos {
namespace {

using namespace test;

struct Shared {
  std::barrier<> barrier{32};
  std::uint32_t words[32] = {};
};
struct Lane {
  Shared* shared;
  int index;

  int lane() const { return index; }
  template <class F>
  std::uint32_t exchanged(std::uint32_t mine, const F& read) const {
    shared->words[index] = mine;
    shared->barrier.arrive_and_wait();
    const std::uint32_t result = read(shared->words);
    shared->barrier.arrive_and_wait();
    return result;
  }
  std::uint32_t from_lane(std::uint32_t x, int lane) const {
    return exchanged(x, [=](const std::uint32_t* all) { return all[lane]; });
  }
  std::uint32_t ballot(bool x) const {
    return exchanged(x ? 1u : 0u, [](const std::uint32_t* all) {
      std::uint32_t bits = 0;
      for (int lane = 0; lane < 32; ++lane) bits |= all[lane] << lane;
      return bits;
    });
  }
};

template <class Token>
data::WidenedBatch by_warps(const data::HostBatch& batch, std::int64_t rows, std::int64_t sequence) {
  data::WidenedBatch to;
  const auto room = [&](std::vector<std::int32_t>& v) {
    v.assign(std::size_t(rows * sequence), -7);
    return v.data();
  };
  const kernels::device::Results results{room(to.tokens), room(to.labels), room(to.positions), room(to.document_start)};
  // HostBatch is bytes at an aligned address.
  const kernels::device::WidenWarps<Token> op(reinterpret_cast<const Token*>(batch.tokens(0)), batch.begins(0).data(),
                                              batch.ignored(0).data(), results, rows, sequence, batch.block().words());
  Shared shared;
  std::vector<std::thread> lanes;
  for (int lane = 0; lane < 32; ++lane)
    lanes.emplace_back([&, lane] {
      for (std::int64_t item = 0; item < op.items(); ++item) op(Lane{&shared, lane}, item);
    });
  for (std::thread& lane : lanes) lane.join();
  return to;
}

TEST(BatchWarps, WidenAsOneTokenAtATime) {
  for (const DType dtype : {DType::u16, DType::u32})
    for (const auto& [rows, sequence] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {3, 7}, {2, 31}, {2, 32}, {3, 1000}, {2, 1024}, {2, 5003}})
      for (const std::int64_t mean_length : {1, 3, 700, 100000}) {
        SCOPED_TRACE(fmt::format("{} [{}, {}], documents of {}", name_of(dtype), rows, sequence, mean_length));
        const data::HostBatch batch = random_batch(rows, sequence, dtype, mean_length);
        const data::WidenedBatch expected = data::widened(batch),
                                 got = dtype == DType::u16 ? by_warps<std::uint16_t>(batch, rows, sequence)
                                                           : by_warps<std::uint32_t>(batch, rows, sequence);
        EXPECT_EQ(got.tokens, expected.tokens);
        EXPECT_EQ(got.labels, expected.labels);
        EXPECT_EQ(got.positions, expected.positions);
        EXPECT_EQ(got.document_start, expected.document_start);
      }
}

}  // namespace
}  // namespace mylos
