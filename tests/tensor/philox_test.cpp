#include "tensor/philox.hpp"

#include <gtest/gtest.h>

namespace mylos {
namespace {

// Words computed from the paper's definition with the reference constants: counter and key zero.
TEST(Philox, KnownAnswer) {
  const PhiloxBlock b = philox(0, Purpose(0), 0, 0);
  EXPECT_EQ(b.v[0], 0x6627e8d5u);
  EXPECT_EQ(b.v[1], 0xe169c58du);
  EXPECT_EQ(b.v[2], 0xbc57ac4cu);
  EXPECT_EQ(b.v[3], 0x9b00dbd8u);

  const PhiloxBlock seven = philox<7>(0, Purpose(0), 0, 0);
  EXPECT_EQ(seven.v[0], 0x5f6fb709u);
  EXPECT_EQ(seven.v[1], 0x0d893f64u);
  EXPECT_EQ(seven.v[2], 0x4f121f81u);
  EXPECT_EQ(seven.v[3], 0x4f730a48u);
}

TEST(Philox, EveryPartOfTheKeyMatters) {
  const PhiloxBlock a = philox(1, Purpose::init, 2, 3);
  for (const PhiloxBlock& b :
       {philox(2, Purpose::init, 2, 3), philox(1, Purpose::shuffle, 2, 3), philox(1, Purpose::init, 3, 3),
        philox(1, Purpose::init, 2, 4), philox(1, Purpose::init, 2, 3 + (1ull << 40))})
    EXPECT_NE(a.v[0], b.v[0]);
}

TEST(Philox, UnitIntervalIsOpenAtZero) {
  EXPECT_GT(unit_interval(0), 0.0f);
  EXPECT_EQ(unit_interval(0xffffffffu), 1.0f);
}

}  // namespace
}  // namespace mylos
