#include "kernels/elementwise/elementwise.hpp"

#include "kernels/detail/checks.hpp"
#include "kernels/elementwise/elementwise_device.hpp"

namespace mylos::kernels {

void convert(const Stream& stream, const Tensor& source, const Tensor& destination) {
  expect_float("convert", "source", source);
  expect_float("convert", "destination", destination);
  expect_dense("convert", "source", source);
  expect_dense("convert", "destination", destination);
  check(source.size() == destination.size(), "convert: source {} and destination {} differ in size", source.describe(),
        destination.describe());
  device::convert(stream, source, destination);
}

void add(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum) {
  const std::pair<const char*, const Tensor*> operands[] = {{"a", &a}, {"b", &b}, {"sum", &sum}};
  for (const auto& [name, t] : operands) {
    expect_float("add", name, *t);
    expect_dense("add", name, *t);
    check(t->size() == sum.size(), "add: {} {} and sum {} differ in size", name, t->describe(), sum.describe());
  }
  device::add(stream, a, b, sum);
}

void fill(const Stream& stream, double value, const Tensor& t) {
  check(t.dtype() == DType::f32 || t.dtype() == DType::bf16 || t.dtype() == DType::i32,
        "fill: {} is not f32, bf16 or i32", t.describe());
  expect_dense("fill", "t", t);
  device::fill(stream, value, t);
}

}  // namespace mylos::kernels
