#include "tensor/runtime.hpp"

#include <atomic>
#include <utility>

#include "base/error.hpp"
#include "tensor/detail/device.hpp"
#include "tensor/region.hpp"

namespace mylos {
namespace {

std::atomic<std::int64_t> g_current{0}, g_peak{0}, g_allocations{0};

}  // namespace

Runtime::Runtime(const RuntimeOptions& options) {
  check(options.threads >= 0 && options.threads <= kMostThreads, "{} threads asked for; give 0 (all) to {}",
        options.threads, kMostThreads);
  check(device::may_start(), "the runtime can be started only once in a process");
  device::start(options);
  Region::profiler_is_loaded(device::profiler_loaded());
}

Runtime::~Runtime() { device::stop(); }

DeviceInfo device_info() { return device::info(); }

Buffer::Buffer(std::int64_t bytes, const char* label) : bytes_(bytes) {
  check(bytes > 0, "buffer '{}' of {} bytes: a buffer has at least one byte", label, bytes);
  // Kokkos keeps a header in front of what it gives, so its addresses are less aligned than the device's own.
  allocated_ = device::allocate(bytes + kAlignment, std::string("mylos::") + label);
  check(allocated_ != nullptr,
        "{:.2f} GiB for '{}' cannot be had: {:.2f} GiB are in use of {:.2f} GiB; `mylos plan` shows what needs memory",
        double(bytes) / 0x1p30, label, double(g_current.load()) / 0x1p30, double(device_info().memory_bytes) / 0x1p30);
  const auto address = reinterpret_cast<std::uintptr_t>(allocated_);
  data_ = reinterpret_cast<void*>((address + kAlignment - 1) / kAlignment * kAlignment);
  const std::int64_t now = g_current += bytes;
  for (std::int64_t peak = g_peak; now > peak && !g_peak.compare_exchange_weak(peak, now);) {
  }
  ++g_allocations;
}

Buffer::~Buffer() {
  if (allocated_ == nullptr) return;
  device::release(allocated_);
  g_current -= bytes_;
}
Buffer::Buffer(Buffer&& o) noexcept
    : allocated_(std::exchange(o.allocated_, nullptr)),
      data_(std::exchange(o.data_, nullptr)),
      bytes_(std::exchange(o.bytes_, 0)) {}
Buffer& Buffer::operator=(Buffer&& o) noexcept {
  std::swap(allocated_, o.allocated_);
  std::swap(data_, o.data_);
  std::swap(bytes_, o.bytes_);
  return *this;
}

DeviceMemory device_memory() { return {g_current, g_peak, g_allocations}; }
void reset_device_memory_peak() { g_peak = g_current.load(); }

void upload(const Stream& stream, const void* host, std::int64_t bytes, const Tensor& device) {
  expect_dense("upload", "destination", device);
  check(bytes == device.bytes(), "upload of {} bytes into {} ({} bytes)", bytes, device.describe(), device.bytes());
  device::copy_in(stream, host, device.data(), bytes);
}

void download(const Stream& stream, const Tensor& device, void* host, std::int64_t bytes) {
  expect_dense("download", "source", device);
  check(bytes == device.bytes(), "download of {} ({} bytes) into {} bytes", device.describe(), device.bytes(), bytes);
  device::copy_out(stream, device.data(), host, bytes);
  stream.fence();
}

void copy(const Stream& stream, const Tensor& source, const Tensor& destination) {
  expect_dense("copy", "source", source);
  expect_dense("copy", "destination", destination);
  check(source.dtype() == destination.dtype() && source.size() == destination.size(), "copy of {} into {}",
        source.describe(), destination.describe());
  device::copy_within(stream, source.data(), destination.data(), source.bytes());
}

void fill_zero(const Stream& stream, const Tensor& t) {
  expect_dense("fill_zero", "tensor", t);
  device::zero(stream, t.data(), t.bytes());
}

}  // namespace mylos
