#include "tensor/async.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/error.hpp"

namespace mylos {
namespace {

TEST(Event, TellsWhenWorkIsDoneAndHowLongItTook) {
  const Stream stream;
  Event begin, end;
  EXPECT_TRUE(begin.done()) << "never recorded";
  const Buffer a(1 << 26, "a");
  const Tensor t(a.data(), DType::u8, {1 << 26});
  fill_zero(stream, t);
  begin.record(stream);
  for (int i = 0; i < 20; ++i) fill_zero(stream, t);
  end.record(stream);
  end.wait();
  EXPECT_TRUE(end.done());
  EXPECT_GT(end.seconds_since(begin), 1e-6);
  EXPECT_LT(end.seconds_since(begin), 10.0);
}

TEST(HostBuffer, CopiesThereAndBackInOrder) {
  const Stream stream;
  const HostBuffer host(3 * 400, "test");
  const Buffer device(400, "test");
  const Tensor t(device.data(), DType::i32, {100});
  auto* numbers = static_cast<std::int32_t*>(host.data());
  for (int i = 0; i < 300; ++i) numbers[i] = i;
  queue_upload(stream, host, 400, t);
  queue_download(stream, t, host, 800);
  Event there;
  there.record(stream);
  there.wait();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(numbers[200 + i], 100 + i);
}

TEST(HostBuffer, RefusesWhatDoesNotFit) {
  const Stream stream;
  const HostBuffer host(400, "test");
  const Buffer device(400, "test");
  const Tensor t(device.data(), DType::i32, {100});
  EXPECT_THROW(queue_upload(stream, host, 4, t), Error);
  EXPECT_THROW(queue_download(stream, t, host, -4), Error);
  EXPECT_THROW(HostBuffer(0, "nothing"), Error);
}

TEST(Graph, ReplaysWhatWasRecorded) {
  const Stream stream;
  const Buffer a(400, "a"), b(400, "b");
  const Tensor ta(a.data(), DType::i32, {100}), tb(b.data(), DType::i32, {100});
  if (!Graph::available()) {
    EXPECT_THROW(Graph(stream, [] {}), Error);
    return;
  }
  const Graph graph(stream, [&] { copy(stream, ta, tb); });
  EXPECT_EQ(graph.nodes(), 1);
  for (const std::int32_t value : {7, 9}) {
    const std::vector<std::int32_t> in(100, value);
    std::vector<std::int32_t> out(100);
    upload(stream, in.data(), 400, ta);
    graph.launch(stream);
    download(stream, tb, out.data(), 400);
    EXPECT_EQ(out, in);
  }
  const HostBuffer host(400, "host");
  EXPECT_THROW(Graph(stream, [&] { queue_upload(stream, host, 0, ta); }), Error) << "host memory";
  EXPECT_THROW(Graph(stream, [&] { stream.fence(); }), Error) << "waits";
  // The stream works on.
  copy(stream, ta, tb);
  stream.fence();
}

}  // namespace
}  // namespace mylos
