// On a GPU, the positions of each token in their order, by one launch. A team has a bucket of tokens and looks for them among
// all: so counts and lists stay in its scratch memory, it knows how many positions the buckets before it have, and nothing
// is left to the order in which teams come. The tokens are few beside their rows, and after the first team in the L2 cache.
#include "kernels/detail/for_each.hpp"
#include "kernels/embedding/token_groups.hpp"

namespace mylos::kernels::device {
namespace {

constexpr int kBuckets = 7, kEntryBits = 13;  // log2 of the least buckets, of the most tokens in one

}  // namespace

int TokenGroups::bits_for(std::int64_t vocabulary) {
  int bits = kBuckets;
  while (((vocabulary - 1) >> bits) >> kEntryBits > 0) ++bits;
  return bits;
}
std::int64_t TokenGroups::bytes(std::int64_t tokens) {
  return tokens * std::int64_t(sizeof(TokenGroup) + sizeof(std::int32_t)) +
         tokens / (kFew + 1) * std::int64_t(sizeof(TokenBlock)) + std::int64_t(sizeof(TokenCounts)) +
         slots_for(tokens) * kTiles * std::int64_t(sizeof(std::int32_t));
}
TokenGroups::TokenGroups(void* memory, std::int64_t tokens, std::int64_t vocabulary)
    : groups(static_cast<TokenGroup*>(memory)), max_slots(slots_for(tokens)), bits(bits_for(vocabulary)) {
  blocks = static_cast<TokenBlock*>(static_cast<void*>(groups + tokens));
  counts = static_cast<TokenCounts*>(static_cast<void*>(blocks + tokens / (kFew + 1)));
  arrivals = static_cast<std::int32_t*>(static_cast<void*>(counts + 1));
  order = arrivals + max_slots * kTiles;
}

#if defined(KOKKOS_ENABLE_CUDA)
namespace {

struct GroupTokens {
  static constexpr int kThreads = 1024, kWarps = kThreads / 32;
  static constexpr int kTileBits = 14, kTile = 1 << kTileBits, kRounds = kTile / kThreads;
  static_assert(kEntryBits + kTileBits < 32);
  using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, 1>>;
  using Member = Policy::member_type;

  const std::int32_t* tokens;
  std::int64_t n;
  int entries;  // tokens of a bucket
  TokenGroups out;

  struct Scratch {
    std::int32_t* next;   // [entries]: how often, then where the next position goes
    std::uint32_t* list;  // [kTile]: entry << kTileBits | position in the tile
    std::int32_t* warps;  // [kSums · kWarps]
    std::int32_t* bases;  // [3]: where the bucket's groups, blocks and slots begin
  };
  KOKKOS_FUNCTION std::int64_t scratch_bytes() const {
    return std::int64_t(sizeof(std::int32_t)) * (entries + kTile + kSums * kWarps + 3);
  }

  // Several sums at once: before this thread's values, and of all.
  enum { kGroups, kBlocks, kSlots, kPositions, kBelow, kSums };
  struct Sums {
    std::int32_t v[kSums];
  };

  static constexpr int kFew = TokenGroups::kFew, kBlock = TokenGroups::kBlock;
  static __device__ std::int32_t blocks_of(std::int32_t count) {
    return count > kFew ? (count + kBlock - 1) / kBlock : 0;
  }
  static __device__ std::int32_t slots_of(std::int32_t count) { return count > kBlock ? blocks_of(count) : 0; }

  __device__ bool mine(std::int32_t token) const {
    return token >= 0 && (token & ((1 << out.bits) - 1)) == int(blockIdx.x);
  }
  // Of a tile, token r of a lane is at position r · 32 + lane of its warp's part.
  __device__ void load_tile(std::int64_t tile, std::int32_t (&t)[kRounds]) const {
    const std::int64_t first = tile + warp() * (kTile / kWarps) + lane();
    for (int r = 0; r < kRounds; ++r) t[r] = first + r * 32 < n ? tokens[first + r * 32] : -1;
  }
  static __device__ int lane() { return int(threadIdx.x); }
  static __device__ int warp() { return int(threadIdx.y); }
  static __device__ int rank() { return warp() * 32 + lane(); }
  static __device__ std::uint32_t lanes_before() { return (1u << lane()) - 1u; }

  KOKKOS_FUNCTION void operator()([[maybe_unused]] const Member& team) const { KOKKOS_IF_ON_DEVICE((run(team);)) }

  __device__ void run(const Member& team) const {
    const Scratch s = scratch(team);
    for (int e = rank(); e < entries; e += kThreads) s.next[e] = 0;
    __syncthreads();
    const std::int32_t below = count(s);
    __syncthreads();
    // Each thread has the entries [first, last).
    const int each = (entries + kThreads - 1) / kThreads, first = min(entries, rank() * each),
              last = min(entries, first + each);
    Sums sums{}, total;
    sums.v[kBelow] = below;
    for (int e = first; e < last; ++e) {
      const std::int32_t count = s.next[e];
      sums.v[kPositions] += count;
      sums.v[kGroups] += count > 0 && count <= kFew;
      sums.v[kBlocks] += blocks_of(count);
      sums.v[kSlots] += slots_of(count);
    }
    scan(s, sums, total);
    if (rank() < 3)
      s.bases[rank()] = atomicAdd(&out.counts->groups + rank(), rank() == 0   ? total.v[kGroups]
                                                                : rank() == 1 ? total.v[kBlocks]
                                                                              : total.v[kSlots]);
    const std::int32_t begin = total.v[kBelow] + sums.v[kPositions];
    for (std::int32_t e = first, at = begin; e < last; ++e) {
      const std::int32_t count = s.next[e];
      s.next[e] = at;
      at += count;
    }
    for (std::int64_t tile = 0; tile < n; tile += kTile) {
      const int found = list_tile(s, tile);
      if (warp() == 0) place(s, tile, found);
    }
    __syncthreads();
    // Now each entry's next is its end: the beginning of the entry after it.
    std::int32_t start = begin, group = s.bases[0] + sums.v[kGroups], block = s.bases[1] + sums.v[kBlocks],
                 slot = s.bases[2] + sums.v[kSlots];
    for (int e = first; e < last; ++e) {
      const std::int32_t count = s.next[e] - start, token = std::int32_t(e << out.bits | int(blockIdx.x));
      if (count > 0 && count <= kFew) out.groups[group++] = {token, count, start, out.order[start]};
      for (std::int32_t i = 0; i < blocks_of(count); ++i)
        out.blocks[block++] = {token, start + i * kBlock, min(kBlock, count - i * kBlock),
                               i,     blocks_of(count),   slots_of(count) > 0 ? slot : -1,
                               {0, 0}};
      slot += slots_of(count);
      start += count;
    }
  }

 private:
  __device__ Scratch scratch(const Member& team) const {
    auto* const words =
        static_cast<std::int32_t*>(team.team_scratch(0).get_shmem_aligned(scratch_bytes(), sizeof(std::int32_t)));
    return {words, reinterpret_cast<std::uint32_t*>(words + entries), words + entries + kTile,
            words + entries + kTile + kSums * kWarps};
  }

  // Counts the bucket's tokens; returns how many of this thread's belong to buckets before it.
  __device__ std::int32_t count(const Scratch& s) const {
    std::int32_t below = 0;
    for (std::int64_t tile = 0; tile < n; tile += kTile) {
      std::int32_t t[kRounds];
      load_tile(tile, t);
      for (int r = 0; r < kRounds; ++r) {
        if (mine(t[r])) atomicAdd(s.next + (t[r] >> out.bits), 1);
        below += t[r] >= 0 && (t[r] & ((1 << out.bits) - 1)) < int(blockIdx.x);
      }
    }
    return below;
  }

  __device__ void scan(const Scratch& s, Sums& sums, Sums& total) const {
    Sums inclusive = sums;
    for (int k = 0; k < kSums; ++k) {
      for (int step = 1; step < 32; step *= 2) {
        const std::int32_t other = __shfl_up_sync(0xffffffffu, inclusive.v[k], step);
        if (lane() >= step) inclusive.v[k] += other;
      }
      if (lane() == 31) s.warps[k * kWarps + warp()] = inclusive.v[k];
    }
    __syncthreads();
    for (int k = 0; k < kSums; ++k) {
      const std::int32_t of_warp = s.warps[k * kWarps + lane()];
      total.v[k] = __reduce_add_sync(0xffffffffu, of_warp);
      sums.v[k] = inclusive.v[k] - sums.v[k] + __reduce_add_sync(0xffffffffu, lane() < warp() ? of_warp : 0);
    }
    __syncthreads();
  }

  // Writes the list of the bucket's tokens in a tile, in their order; returns its length.
  __device__ int list_tile(const Scratch& s, std::int64_t tile) const {
    std::int32_t t[kRounds];
    load_tile(tile, t);
    int found = 0;
    for (int r = 0; r < kRounds; ++r) found += __popc(__ballot_sync(0xffffffffu, mine(t[r])));
    __syncthreads();  // the list of the tile before has been read
    if (lane() == 0) s.warps[warp()] = found;
    __syncthreads();
    const int of_warp = s.warps[lane()], all = __reduce_add_sync(0xffffffffu, of_warp);
    int at = __reduce_add_sync(0xffffffffu, lane() < warp() ? of_warp : 0);
    for (int r = 0; r < kRounds; ++r) {
      const std::uint32_t found_here = __ballot_sync(0xffffffffu, mine(t[r]));
      if (mine(t[r]))
        s.list[at + __popc(found_here & lanes_before())] =
            std::uint32_t(t[r] >> out.bits) << kTileBits | std::uint32_t(warp() * (kTile / kWarps) + r * 32 + lane());
      at += __popc(found_here);
    }
    __syncthreads();
    return all;
  }

  // One warp puts the listed positions in their places, 32 at a time: those of one token in the order of lanes.
  __device__ void place(const Scratch& s, std::int64_t tile, int found) const {
    for (int begin = 0; begin < found; begin += 32) {
      const bool inside = begin + lane() < found;
      const std::uint32_t active = __ballot_sync(0xffffffffu, inside);
      if (inside) {
        const std::uint32_t item = s.list[begin + lane()], entry = item >> kTileBits;
        const std::uint32_t alike = __match_any_sync(active, entry);
        const std::int32_t next = s.next[entry], before = __popc(alike & lanes_before());
        __syncwarp(active);
        if (before == 0) s.next[entry] = next + __popc(alike);
        out.order[next + before] = std::int32_t(tile + (item & (kTile - 1)));
      }
      __syncwarp();
    }
  }
};

}  // namespace

void group_tokens(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, const TokenGroups& into) {
  fill_zero(stream, Tensor(into.counts, DType::i32, {4 + into.max_slots * TokenGroups::kTiles}));
  const GroupTokens op{tokens.as<std::int32_t>(), tokens.extent(0), int((vocabulary - 1) >> into.bits) + 1, into};
  Kokkos::parallel_for("mylos::embedding::group",
                       GroupTokens::Policy(exec_of(stream), 1 << into.bits, GroupTokens::kWarps, 32)
                           .set_scratch_size(0, Kokkos::PerTeam(int(op.scratch_bytes()) + 16)),
                       op);
}
#endif

}  // namespace mylos::kernels::device
