#include "support/host_tensor.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/error.hpp"

namespace mylos::test {
namespace {

std::int64_t count(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (std::int64_t e : shape) n *= e;
  return n;
}

template <class T>
void widen(const std::vector<std::uint8_t>& raw, std::vector<double>& out) {
  const T* p = reinterpret_cast<const T*>(raw.data());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if constexpr (std::is_same_v<T, bf16>)
      out[i] = double(float(p[i]));
    else
      out[i] = double(p[i]);
  }
}

}  // namespace

HostTensor HostTensor::rounded(DType dtype) const {
  HostTensor r = *this;
  for (double& x : r.v)
    x = dtype == DType::bf16 ? double(float(bf16(float(x)))) : dtype == DType::f32 ? double(float(x)) : x;
  return r;
}

std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* set = std::getenv("MYLOS_TEST_SEED");
    const std::uint64_t s = set ? std::strtoull(set, nullptr, 10) : std::uint64_t(std::random_device{}());
    std::printf("MYLOS_TEST_SEED=%llu\n", static_cast<unsigned long long>(s));
    return s;
  }();
  return seed;
}

bool too_large(std::int64_t elements) {
  const char* set = std::getenv("MYLOS_TEST_MOST");
  const bool is = set != nullptr && elements > std::strtoll(set, nullptr, 10);
  if (is) std::printf("left out: %lld elements, MYLOS_TEST_MOST=%s\n", static_cast<long long>(elements), set);
  return is;
}

HostTensor zeros(std::vector<std::int64_t> shape) {
  const std::int64_t n = count(shape);
  return {std::move(shape), std::vector<double>(std::size_t(n), 0.0)};
}

HostTensor random_normal(std::vector<std::int64_t> shape, std::uint64_t seed, double std_dev, double mean) {
  HostTensor t = zeros(std::move(shape));
  std::mt19937_64 gen(seed);
  std::normal_distribution<double> normal(mean, std_dev);
  for (double& x : t.v) x = normal(gen);
  return t;
}

std::vector<std::int32_t> random_ints(std::int64_t n, std::int32_t low, std::int32_t high, std::uint64_t seed) {
  std::mt19937_64 gen(seed);
  std::uniform_int_distribution<std::int32_t> pick(low, high - 1);
  std::vector<std::int32_t> v(std::size_t(n), 0);
  for (auto& x : v) x = pick(gen);
  return v;
}

DeviceTensor empty_device(const std::vector<std::int64_t>& shape, DType dtype) {
  DeviceTensor d;
  const std::int64_t bytes = count(shape) * size_of(dtype);
  d.buffer = Buffer(std::max<std::int64_t>(bytes, 1), "test");
  d.tensor = Tensor(d.buffer.data(), dtype, std::span<const std::int64_t>(shape));
  const std::vector<std::uint8_t> poison(std::size_t(bytes), 0xFF);
  Stream stream;
  upload(stream, poison.data(), bytes, d.tensor);
  stream.fence();
  return d;
}

DeviceTensor to_device(const Stream& stream, const HostTensor& h, DType dtype) {
  DeviceTensor d = empty_device(h.shape, dtype);
  if (dtype == DType::f32) {
    const std::vector<float> v(h.v.begin(), h.v.end());
    upload(stream, v.data(), d.tensor.bytes(), d.tensor);
    stream.fence();
  } else if (dtype == DType::bf16) {
    std::vector<bf16> v;
    v.reserve(h.v.size());
    for (double x : h.v) v.push_back(bf16(float(x)));
    upload(stream, v.data(), d.tensor.bytes(), d.tensor);
    stream.fence();
  } else {
    fail("to_device: {} is not a dtype of this helper", name_of(dtype));
  }
  return d;
}

DeviceTensor to_device(const Stream& stream, const std::vector<std::int32_t>& v,
                       const std::vector<std::int64_t>& shape) {
  DeviceTensor d = empty_device(shape, DType::i32);
  upload(stream, v.data(), d.tensor.bytes(), d.tensor);
  stream.fence();
  return d;
}

std::vector<std::uint8_t> raw_bytes(const Stream& stream, const Tensor& t) {
  std::vector<std::uint8_t> raw(std::size_t(t.bytes()));
  download(stream, t, raw.data(), t.bytes());
  return raw;
}

HostTensor to_host(const Stream& stream, const Tensor& t) {
  HostTensor h = zeros({t.shape().begin(), t.shape().end()});
  const std::vector<std::uint8_t> raw = raw_bytes(stream, t);
  switch (t.dtype()) {
    case DType::f32:
      widen<float>(raw, h.v);
      break;
    case DType::bf16:
      widen<bf16>(raw, h.v);
      break;
    case DType::f64:
      widen<double>(raw, h.v);
      break;
    case DType::i32:
      widen<std::int32_t>(raw, h.v);
      break;
    case DType::i64:
      widen<std::int64_t>(raw, h.v);
      break;
    case DType::u8:
      widen<std::uint8_t>(raw, h.v);
      break;
    case DType::u16:
      widen<std::uint16_t>(raw, h.v);
      break;
    case DType::u32:
      widen<std::uint32_t>(raw, h.v);
      break;
  }
  return h;
}

double relative_error(const HostTensor& got, const HostTensor& want, double scale) {
  double diff = 0, norm = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    diff += (got[i] - want[i]) * (got[i] - want[i]);
    norm += std::max(want[i] * want[i], scale * scale);
  }
  return std::sqrt(diff) / std::max(std::sqrt(norm), 1e-30);
}

::testing::AssertionResult close(const HostTensor& got, const HostTensor& want, double tolerance, double scale) {
  if (got.size() != want.size())
    return ::testing::AssertionFailure() << "sizes differ: " << got.size() << " and " << want.size();
  const double error = relative_error(got, want, scale);
  if (error <= tolerance) return ::testing::AssertionSuccess();
  std::int64_t worst = 0;
  for (std::int64_t i = 0; i < want.size(); ++i)
    if (!(std::fabs(got[i] - want[i]) <= std::fabs(got[worst] - want[worst]))) worst = i;
  return ::testing::AssertionFailure() << "relative error " << error << " above " << tolerance << "; worst at element "
                                       << worst << ": " << got[worst] << ", expected " << want[worst];
}

double tolerance_of(DType dtype) { return dtype == DType::bf16 ? 8e-3 : dtype == DType::f32 ? 2e-6 : 1e-12; }

}  // namespace mylos::test
