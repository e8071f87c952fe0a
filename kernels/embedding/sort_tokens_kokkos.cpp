// Positions sorted by token. Keys are unique, so any sort gives the same order in every run: on a CPU a counting sort,
// on a GPU a bitonic sort (Batcher 1968) whose short distances run in a team's scratch memory. Neither allocates.
#include <algorithm>

#include "kernels/detail/rows.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels::device {
namespace {

constexpr std::int64_t kTile = 2048;  // keys of a team: 16 kB of scratch

using Keys = Kokkos::View<std::uint64_t*, Exec::scratch_memory_space, Kokkos::MemoryUnmanaged>;

MYLOS_FUNCTION void order_pair(std::uint64_t& a, std::uint64_t& b, bool ascending) {
  if ((a > b) == ascending) {
    const std::uint64_t t = a;
    a = b;
    b = t;
  }
}

// The steps of the runs first_run, 2·first_run, ..., last_run whose distance is below a tile.
struct TileSteps {
  std::uint64_t* keys;
  std::int64_t first_run, last_run;

  KOKKOS_FUNCTION void operator()(const Member& member) const {
    const std::int64_t base = std::int64_t(member.league_rank()) * kTile;
    const Keys tile(member.team_scratch(0), kTile);
    for (std::int64_t i = member.team_rank(); i < kTile; i += member.team_size()) tile(i) = keys[base + i];
    for (std::int64_t run = first_run; run <= last_run; run *= 2) {
      for (std::int64_t distance = run < kTile ? run / 2 : kTile / 2; distance > 0; distance /= 2) {
        member.team_barrier();
        for (std::int64_t pair = member.team_rank(); pair < kTile / 2; pair += member.team_size()) {
          const std::int64_t i = pair / distance * 2 * distance + pair % distance;
          order_pair(tile(i), tile(i + distance), ((base + i) & run) == 0);
        }
      }
    }
    member.team_barrier();
    for (std::int64_t i = member.team_rank(); i < kTile; i += member.team_size()) keys[base + i] = tile(i);
  }
};

void sort_on_gpu(const Exec& exec, const std::int32_t* tokens, std::int64_t n, std::uint64_t* keys) {
  using Policy = Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t>>;
  const std::int64_t padded = sorted_keys(n);
  Kokkos::parallel_for(
      "mylos::embedding::backward_keys", Policy(exec, 0, padded), KOKKOS_LAMBDA(std::int64_t i) {
        keys[i] = i < n ? std::uint64_t(std::uint32_t(tokens[i])) << 32 | std::uint64_t(i) : ~std::uint64_t(0);
      });
  const auto tiles = [&](std::int64_t first_run, std::int64_t last_run) {
    Kokkos::parallel_for(
        "mylos::embedding::backward_sort",
        TeamPolicy(exec, int(padded / kTile), 512).set_scratch_size(0, Kokkos::PerTeam(Keys::shmem_size(kTile))),
        TileSteps{keys, first_run, last_run});
  };
  tiles(2, kTile);
  for (std::int64_t run = 2 * kTile; run <= padded; run *= 2) {
    for (std::int64_t distance = run / 2; distance >= kTile; distance /= 2)
      Kokkos::parallel_for(
          "mylos::embedding::backward_merge", Policy(exec, 0, padded / 2), KOKKOS_LAMBDA(std::int64_t pair) {
            const std::int64_t i = pair / distance * 2 * distance + pair % distance;
            order_pair(keys[i], keys[i + distance], (i & run) == 0);
          });
    tiles(run, run);
  }
}

void sort_on_cpu(const std::int32_t* tokens, std::int64_t n, std::int64_t vocabulary, std::uint64_t* keys) {
  std::int64_t* next = reinterpret_cast<std::int64_t*>(keys + n);  // [vocabulary + 1], after the keys
  std::fill_n(next, vocabulary + 1, std::int64_t(0));
  for (std::int64_t i = 0; i < n; ++i) ++next[tokens[i] + 1];
  for (std::int64_t v = 0; v < vocabulary; ++v) next[v + 1] += next[v];
  for (std::int64_t i = 0; i < n; ++i) keys[next[tokens[i]]++] = std::uint64_t(tokens[i]) << 32 | std::uint64_t(i);
}

}  // namespace

std::int64_t sorted_keys(std::int64_t tokens) {
  if constexpr (!kOnGpu) return tokens;
  std::int64_t padded = kTile;
  while (padded < tokens) padded *= 2;
  return padded;
}

std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t vocabulary) {
  return std::int64_t(sizeof(std::uint64_t)) * (sorted_keys(tokens) + (kOnGpu ? 0 : vocabulary + 1));
}

void sort_tokens(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, std::uint64_t* order) {
  if constexpr (kOnGpu) {
    sort_on_gpu(exec_of(stream), tokens.as<std::int32_t>(), tokens.extent(0), order);
  } else {
    sort_on_cpu(tokens.as<std::int32_t>(), tokens.extent(0), vocabulary, order);
  }
}

}  // namespace mylos::kernels::device
