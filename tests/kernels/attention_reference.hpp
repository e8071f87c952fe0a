// Causal attention with document boundaries in fp64, with its analytic gradient, and random inputs for it.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/attention/attention.hpp"
#include "support/host_tensor.hpp"

namespace mylos::test {

using kernels::AttentionShape;

struct Values {
  HostTensor q, k, v, dout;
};
struct Results {
  HostTensor out, lse, dq, dk, dv;
};

inline Values random_values(const AttentionShape& s, std::uint64_t seed, double std_dev = 1.0) {
  return {random_normal({s.batch, s.sequence, s.heads, s.head_size}, seed + 1, std_dev),
          random_normal({s.batch, s.sequence, s.kv_heads, s.head_size}, seed + 2, std_dev),
          random_normal({s.batch, s.sequence, s.kv_heads, s.head_size}, seed + 3),
          random_normal({s.batch, s.sequence, s.heads, s.head_size}, seed + 4)};
}

inline Values rounded(const Values& x, DType dtype) {
  return {x.q.rounded(dtype), x.k.rounded(dtype), x.v.rounded(dtype), x.dout.rounded(dtype)};
}

// Documents of random length, every fifth of a single token.
inline std::vector<std::int32_t> random_documents(const AttentionShape& s, std::uint64_t seed) {
  std::vector<std::int32_t> start(std::size_t(s.batch * s.sequence));
  const std::vector<std::int32_t> draw = random_ints(s.batch * s.sequence, 0, 1 << 30, seed);
  const std::int32_t longest = std::int32_t(std::max<std::int64_t>(1, s.sequence / 2));
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t i = 0; i < s.sequence;) {
      const std::int32_t d = draw[std::size_t(b * s.sequence + i)];
      const std::int64_t end = std::min(s.sequence, i + (d % 5 == 0 ? 1 : 1 + d % longest));
      for (const std::int64_t first = i; i < end; ++i) start[std::size_t(b * s.sequence + i)] = std::int32_t(first);
    }
  return start;
}

// The backward pass reads the output as it is stored, so its gradient is that of the stored output: rounded to `stored`.
inline Results reference(const AttentionShape& s, const Values& x, const std::vector<std::int32_t>& documents,
                         DType stored = DType::f64) {
  const std::int64_t S = s.sequence, h = s.head_size;
  Results r{zeros(x.q.shape), zeros({s.batch, s.heads, S}), zeros(x.q.shape), zeros(x.k.shape), zeros(x.k.shape)};
  const double scale = 1.0 / std::sqrt(double(h));
  const auto dot = [h](const HostTensor& a, std::int64_t i, const HostTensor& b, std::int64_t j) {
    double sum = 0;
    for (std::int64_t d = 0; d < h; ++d) sum += a[i + d] * b[j + d];
    return sum;
  };
  std::vector<double> p(static_cast<std::size_t>(S));
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t head = 0; head < s.heads; ++head)
      for (std::int64_t i = 0; i < S; ++i) {
        const std::int64_t row = ((b * S + i) * s.heads + head) * h;
        const auto key = [&](std::int64_t j) { return ((b * S + j) * s.kv_heads + head / (s.heads / s.kv_heads)) * h; };
        const std::int64_t first = documents.empty() ? 0 : documents[std::size_t(b * S + i)];
        double largest = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
        for (std::int64_t j = first; j <= i; ++j)
          largest = std::max(largest, p[std::size_t(j)] = scale * dot(x.q, row, x.k, key(j)));
        for (std::int64_t j = first; j <= i; ++j) sum += std::exp(p[std::size_t(j)] - largest);
        r.lse[(b * s.heads + head) * S + i] = largest + std::log(sum);
        for (std::int64_t j = first; j <= i; ++j) {
          p[std::size_t(j)] = std::exp(p[std::size_t(j)] - largest) / sum;
          for (std::int64_t d = 0; d < h; ++d) r.out[row + d] += p[std::size_t(j)] * x.v[key(j) + d];
        }
        for (std::int64_t d = 0; d < h; ++d) {
          const double out = r.out[row + d];
          delta += x.dout[row + d] * (stored == DType::bf16 ? double(float(bf16(float(out)))) : out);
        }
        for (std::int64_t j = first; j <= i; ++j) {
          const double ds = scale * p[std::size_t(j)] * (dot(x.dout, row, x.v, key(j)) - delta);
          for (std::int64_t d = 0; d < h; ++d) {
            r.dq[row + d] += ds * x.k[key(j) + d];
            r.dk[key(j) + d] += ds * x.q[row + d];
            r.dv[key(j) + d] += p[std::size_t(j)] * x.dout[row + d];
          }
        }
      }
  return r;
}

}  // namespace mylos::test
