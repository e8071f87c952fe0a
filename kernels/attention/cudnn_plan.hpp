// A cuDNN attention graph: what it is built from, and the built one, which any stream may run.
//
// Building takes a second or so (cuDNN compiles kernels); running neither allocates device memory nor synchronises nor
// asks for events, so that a stream may be captured. bf16; the sums of the softmax (lse) are f32.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "kernels/attention/providers.hpp"

namespace mylos::kernels::attention::cudnn {

// causal: sequence by sequence. documents: causal within documents, which lie anywhere in the tokens; cuDNN's ragged
// layout.
enum class Mask { causal, documents };

using Strides = std::array<std::int64_t, 3>;  // elements: batch, token, head
inline Strides strides_of(const Window& w) { return {w.batch, w.token, w.head}; }

struct PlanKey {
  AttentionShape shape{};  // of documents: batch is how many there are at most, sequence the most tokens of one
  Mask mask = Mask::causal;
  bool backward = false, deterministic = true;
  // Of documents: tokens of all, which makes cuDNN lay out its fp32 sums as the gradients lie. 0: one document after
  // another, each with room for the longest.
  std::int64_t tokens = 0;
  std::array<Strides, 8> strides{};  // q, k, v, out; backward also dout, dq, dk, dv

  auto tie() const {
    return std::tie(shape.batch, shape.sequence, shape.heads, shape.kv_heads, shape.head_size, mask, backward,
                    deterministic, tokens, strides);
  }
  bool operator<(const PlanKey& o) const { return tie() < o.tie(); }
};

// An engine of cuDNN with choices of its knobs (KnobType_t, value); those not named stay at their defaults.
struct Engine {
  std::int64_t id = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> knobs;
};
inline constexpr std::int64_t kTilesKnob = 12;  // KnobType_t::KERNEL_CFG: the kernel, by its tiles
struct KnobRange {
  std::int64_t type, lowest, highest, step;
};

struct Operands {
  void *q = nullptr, *k = nullptr, *v = nullptr, *out = nullptr, *lse = nullptr;
  void *dout = nullptr, *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void* lengths = nullptr;         // [batch] i32
  std::array<void*, 8> offsets{};  // as Plan::rows() says, [batch + 1] i64 each, in elements
};

class Plan {
 public:
  enum class Candidates { first, all };  // of cuDNN's ranking
  static constexpr int kChosen = -1;     // the first that works
  explicit Plan(const PlanKey& key, Candidates candidates = Candidates::first);
  Plan(const PlanKey& key, const Engine& engine);
  ~Plan();

  // With documents: the widths (elements a token) whose offsets run() wants, first lse's.
  const std::vector<std::int64_t>& rows() const { return rows_; }
  int candidates() const;
  bool built(int candidate) const;
  std::int64_t workspace(int candidate = kChosen) const;
  std::string name(int candidate = kChosen) const;
  void run(const Stream& stream, const Operands& operands, void* workspace, int candidate = kChosen) const;

  static std::vector<std::vector<KnobRange>> engines(const PlanKey& key);

 private:
  struct Impl;
  PlanKey key_;
  std::vector<std::int64_t> rows_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mylos::kernels::attention::cudnn
