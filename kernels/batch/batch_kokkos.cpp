#include <algorithm>

#include "kernels/batch/batch_device.hpp"
#include "kernels/batch/widen_row.hpp"
#include "kernels/batch/widen_warps_gpu.hpp"
#include "kernels/detail/rows.hpp"

namespace mylos::kernels::device {
namespace {

#if defined(KOKKOS_ENABLE_CUDA)
struct Warp {
  __device__ int lane() const { return int(threadIdx.x); }
  __device__ std::uint32_t ballot(bool x) const { return __ballot_sync(0xffffffffu, x); }
  __device__ std::uint32_t from_lane(std::uint32_t x, int lane) const { return __shfl_sync(0xffffffffu, x, lane); }
};
template <class Token>
struct WidenTeam {
  static constexpr int kWarps = 4;
  WidenWarps<Token> op;
  std::int64_t items;

  KOKKOS_FUNCTION void operator()([[maybe_unused]] const Member& member) const {
    KOKKOS_IF_ON_DEVICE((const std::int64_t item = std::int64_t(member.league_rank()) * kWarps + threadIdx.y;
                         if (item < items) op(Warp{}, item);))
  }
};
#endif

// A row on a CPU, document by document.
template <class Token>
struct WidenRow {
  const Token* tokens;
  const std::uint32_t *begins, *ignored;
  Results results;
  std::int64_t sequence, words;

  void operator()(std::int64_t r) const {
    const Row<Token> row(tokens, begins, ignored, results, r, sequence, words);
    MYLOS_SIMD
    for (std::int64_t t = 0; t < sequence; ++t) {
      row.to.tokens[t] = std::int32_t(row.tokens[t]);
      row.to.labels[t] = std::int32_t(row.tokens[t + 1]);
    }
    std::int64_t start = 0;
    for (std::int64_t w = 0; w < words; ++w) {
      for (std::uint32_t bits = row.begins[w]; bits != 0; bits &= bits - 1) {
        const std::int64_t t = w * 32 + Kokkos::countr_zero(bits);
        if (t == 0) continue;
        const std::int64_t end = std::min(t, sequence);
        document(row, start, end);
        if (t <= sequence) row.to.labels[t - 1] = -1;
        start = end;
      }
      for (std::uint32_t bits = row.ignored[w]; bits != 0; bits &= bits - 1) {
        const std::int64_t t = w * 32 + Kokkos::countr_zero(bits);
        if (t < sequence) row.to.labels[t] = -1;
      }
    }
    document(row, start, sequence);
  }

 private:
  static void document(const Row<Token>& row, std::int64_t start, std::int64_t end) {
    MYLOS_SIMD
    for (std::int64_t t = start; t < end; ++t) {
      row.to.positions[t] = std::int32_t(t - start);
      row.to.document_start[t] = std::int32_t(start);
    }
  }
};

template <class Token>
void widen(const Exec& exec, const PackedBatch& packed, const Results& results, std::int64_t rows,
           std::int64_t sequence) {
  constexpr const char* kLabel = "mylos::batch::widen";
  const auto* tokens = packed.tokens.as<Token>();
  const auto *begins = packed.begins.as<std::uint32_t>(), *ignored = packed.ignored.as<std::uint32_t>();
  const std::int64_t words = packed.begins.extent(1);
#if defined(KOKKOS_ENABLE_CUDA)
  using Team = WidenTeam<Token>;
  const WidenWarps<Token> op(tokens, begins, ignored, results, rows, sequence, words);
  const std::int64_t items = op.items(), teams = (items + Team::kWarps - 1) / Team::kWarps;
  Kokkos::parallel_for(kLabel, TeamPolicy(exec, int(teams), Team::kWarps, 32), Team{op, items});
#else
  Kokkos::parallel_for(kLabel, Kokkos::RangePolicy<Exec, Kokkos::IndexType<std::int64_t> >(exec, 0, rows),
                       WidenRow<Token>{tokens, begins, ignored, results, sequence, words});
#endif
}

}  // namespace

void widen_batch(const Stream& stream, const PackedBatch& packed, const Tensor& tokens, const Tensor& labels,
                 const Tensor& positions, const Tensor& document_start) {
  const Results results{tokens.as<std::int32_t>(), labels.as<std::int32_t>(), positions.as<std::int32_t>(),
                        document_start.as<std::int32_t>()};
  const std::int64_t rows = tokens.extent(0), sequence = tokens.extent(1);
  if (packed.tokens.dtype() == DType::u16) {
    widen<std::uint16_t>(exec_of(stream), packed, results, rows, sequence);
  } else {
    widen<std::uint32_t>(exec_of(stream), packed, results, rows, sequence);
  }
}

}  // namespace mylos::kernels::device
