#include "tensor/arena.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace mylos {
namespace {

std::int64_t layout(Arena& arena) {
  arena.take(DType::f32, {3, 5}, "weights");
  const std::int64_t mark = arena.mark();
  arena.take(DType::bf16, {1000}, "workspace");
  arena.rewind(mark);
  arena.take(DType::bf16, {10}, "workspace");
  return arena.peak_bytes();
}

TEST(Arena, MeasuringEqualsLayingOut) {
  Arena plan;
  const std::int64_t planned = layout(plan);
  EXPECT_EQ(planned, 256 + 2048);
  EXPECT_EQ(plan.categories().at("workspace"), 2048);
  Arena real(planned, "test");
  EXPECT_EQ(layout(real), planned);
  EXPECT_EQ(real.capacity_bytes(), planned);
  EXPECT_FALSE(real.measuring());
}

TEST(Arena, MoreThanPlannedIsAnError) {
  Arena arena(1024, "test");
  const Tensor t = arena.take(DType::u8, {700}, "a");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.data()) % Arena::kAlignment, 0u);
  EXPECT_THROW(arena.take(DType::u8, {300}, "a"), Error);
  EXPECT_THROW(arena.rewind(5000), Error);
}

TEST(Arena, APlanBeyondAllAddressesIsAnError) {
  Arena plan;
  const std::int64_t most = std::int64_t(1) << 59;
  EXPECT_THROW(
      {
        for (int i = 0; i < 8; ++i) plan.take(DType::f32, {most - 1}, "weights");
      },
      Error);
  EXPECT_GT(plan.peak_bytes(), 0);
}

}  // namespace
}  // namespace mylos
