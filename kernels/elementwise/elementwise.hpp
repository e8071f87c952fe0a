// Small ops on whole tensors: conversion, addition, constant fill. Tensors are dense; bf16 and f32.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::kernels {

// destination[i] = source[i] in the destination's dtype (f32 <-> bf16, rounded to nearest even; equal dtypes copy).
void convert(const Stream& stream, const Tensor& source, const Tensor& destination);

// sum[i] = a[i] + b[i], in fp32, stored in sum's dtype. sum may be a or b.
void add(const Stream& stream, const Tensor& a, const Tensor& b, const Tensor& sum);

// t[i] = value (f32, bf16, i32).
void fill(const Stream& stream, double value, const Tensor& t);

}  // namespace mylos::kernels
