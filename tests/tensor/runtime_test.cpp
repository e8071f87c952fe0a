#include "tensor/runtime.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"

namespace mylos {
namespace {

TEST(Runtime, CopiesGoThereAndBack) {
  Stream stream;
  const Buffer a(4000, "a"), b(4000, "b");
  const Tensor ta(a.data(), DType::f32, {1000}), tb(b.data(), DType::f32, {1000});
  std::vector<float> in(1000), out(1000);
  for (int i = 0; i < 1000; ++i) in[std::size_t(i)] = float(i) * 0.5f;
  upload(stream, in.data(), 4000, ta);
  copy(stream, ta, tb);
  fill_zero(stream, ta);
  download(stream, tb, out.data(), 4000);
  EXPECT_EQ(in, out);
  download(stream, ta, out.data(), 4000);
  EXPECT_EQ(out, std::vector<float>(1000, 0.0f));
}

TEST(Runtime, MemoryIsCounted) {
  const DeviceMemory before = device_memory();
  {
    const Buffer a(1 << 20, "a");
    EXPECT_EQ(device_memory().current_bytes, before.current_bytes + (1 << 20));
    EXPECT_GE(device_memory().peak_bytes, before.current_bytes + (1 << 20));
  }
  EXPECT_EQ(device_memory().current_bytes, before.current_bytes);
}

TEST(Runtime, SizesMustAgree) {
  Stream stream;
  const Buffer a(400, "a");
  float host[100];
  EXPECT_THROW(upload(stream, host, 396, Tensor(a.data(), DType::f32, {100})), Error);
  EXPECT_THROW(Buffer(0, "empty"), Error);
  EXPECT_THROW(Buffer(std::int64_t(1) << 56, "too large"), Error);
}

TEST(Runtime, DeviceIsNamed) {
  const DeviceInfo info = device_info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GT(info.concurrency, 0);
}

}  // namespace
}  // namespace mylos
