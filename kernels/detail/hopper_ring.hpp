// The ring of stages between one thread of a block, which brings operands, and its warpgroups, which use them; results leave through it, too. Blocks come
// in clusters of two that bring parts of each other's stages, so a stage is free when the warpgroups of both have done with it.
//
//   Ring<kStages, kStageBytes> ring(raw, barriers);   ring.initialize(warpgroups of a block);   // by one thread, before synchronize_cluster()
//   Turn turn;                                        // of whoever goes round: the same order on both sides
//   const auto arrived = ring.open(turn, bytes);      // who brings: waits until the stage is free; copies of so many bytes count at `arrived`
//   ring.await(turn);                                 // who uses: until they are there
//   ring.release(turn.stage, block);                  // one thread of a warpgroup for each block of the cluster
#pragma once

#if defined(__CUDACC__)  // nothing for other compilers
#include "kernels/detail/hopper.hpp"

namespace mylos::kernels::hopper {

// How many clusters of two blocks of this kernel the device runs at a time, at least 1; the kernel may use so much shared memory from here on.
int resident_clusters(const void* kernel, int threads, int scratch);

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

// A place in the ring, and the parity of its phase.
template <int kStages>
struct Turn {
  int stage = 0;
  std::uint32_t parity = 0;
  __device__ void next() {
    if (++stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <int kStages_, int kStageBytes>
class Ring {
 public:
  static constexpr int kStages = kStages_;
  using Turn = hopper::Turn<kStages>;

  // `raw`: a kilobyte more than the stages, for the alignment that the swizzle wants.
  __device__ Ring(const void* raw, const std::uint64_t (&barriers)[2 * kStages])
      : stages_((shared_address(raw) + 1023) / 1024 * 1024), full_(shared_address(barriers)) {}
  __device__ void initialize(int warpgroups) const {
    for (int s = 0; s < kStages; ++s) {
      init_barrier(full(s), 1);
      init_barrier(empty(s), 2 * warpgroups);
    }
    fence_barriers();
  }

  __device__ std::uint32_t stage(int s) const { return stages_ + s * kStageBytes; }
  __device__ std::uint32_t open(const Turn& turn, int bytes) const {
    wait(empty(turn.stage), turn.parity ^ 1);
    arrive_and_expect(full(turn.stage), bytes);
    return full(turn.stage);
  }
  __device__ void await(const Turn& turn) const { wait(full(turn.stage), turn.parity); }
  __device__ void release(int s, int block) const { arrive_at(empty(s), block); }

 private:
  __device__ std::uint32_t full(int s) const { return full_ + s * 8; }
  __device__ std::uint32_t empty(int s) const { return full_ + (kStages + s) * 8; }

  std::uint32_t stages_, full_;
};

// The stage that a warpgroup's last results are on their way out of; of the thread that ended the stores from it.
template <class Ring>
class Departure {
 public:
  __device__ explicit Departure(const Ring& ring) : ring_(ring) {}
  // Until all stores but the last kLater are done with their stages; then this one is free for both blocks.
  template <int kLater>
  __device__ void settle() {
    if (stage_ < 0) return;
    wait_for_stores<kLater>();
    for (int block = 0; block < 2; ++block) ring_.release(stage_, block);
    stage_ = -1;
  }
  // Results have begun to leave from stage s.
  __device__ void begin(int s) {
    settle<1>();
    stage_ = s;
  }

 private:
  const Ring& ring_;
  int stage_ = -1;
};

#endif

}  // namespace mylos::kernels::hopper
#endif
