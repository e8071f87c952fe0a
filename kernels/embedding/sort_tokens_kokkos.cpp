// On a CPU, the positions of each token in their order, by a counting sort.
#include <algorithm>

#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels::device {

void sort_tokens(const Tensor& tokens, std::int64_t vocabulary, std::uint64_t* order) {
  const std::int64_t n = tokens.extent(0);
  const std::int32_t* token = tokens.as<std::int32_t>();
  std::int64_t* next = reinterpret_cast<std::int64_t*>(order + n);
  std::fill_n(next, vocabulary + 1, std::int64_t(0));
  for (std::int64_t i = 0; i < n; ++i) ++next[token[i] + 1];
  for (std::int64_t v = 0; v < vocabulary; ++v) next[v + 1] += next[v];
  for (std::int64_t i = 0; i < n; ++i) order[next[token[i]]++] = std::uint64_t(token[i]) << 32 | std::uint64_t(i);
}

}  // namespace mylos::kernels::device
