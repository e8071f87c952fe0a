// Every test executable links this main: the Runtime lives around all tests.
#include <gtest/gtest.h>

#include "tensor/runtime.hpp"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  mylos::Runtime runtime;
  return RUN_ALL_TESTS();
}
