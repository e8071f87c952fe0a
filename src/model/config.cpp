#include "model/config.hpp"

#include <cmath>

#include "base/error.hpp"
#include "kernels/attention/attention.hpp"

namespace mylos::model {
namespace {

constexpr std::int64_t kFfnMultiple = 256;

// 2/3 of the classic 4 D keeps the parameters of a three-matrix feed-forward equal to those of a two-matrix one.
std::int64_t ffn_width(std::int64_t dim, double multiplier) {
  const auto wide = std::int64_t(8.0 * double(dim) / 3.0 * multiplier);
  return (wide + kFfnMultiple - 1) / kFfnMultiple * kFfnMultiple;
}

}  // namespace

void bind(ConfigBinder& keys, ModelConfig& c) {
  keys.integer("dim", c.dim, 1, 1 << 20, "model width D");
  keys.integer("layers", c.layers, 1, 1 << 14, "decoder blocks L");
  keys.integer("heads", c.heads, 1, 1 << 14, "query heads H");
  keys.integer("kv_heads", c.kv_heads, 0, 1 << 14, "key/value heads K, a divisor of heads; 0: heads");
  keys.integer("head_size", c.head_size, 0, kernels::kMaxHeadSize, "width h of a head, even; 0: dim / heads");
  keys.integer("ffn", c.ffn, 0, 1 << 22,
               "feed-forward width F; 0: 256 * ceil(int(8 * dim / 3 * ffn_multiplier) / 256)");
  keys.real("ffn_multiplier", c.ffn_multiplier, 1e-3, 1e3,
            "factor of the feed-forward width rule; unused when ffn is given");
  keys.integer("vocab", c.vocab, 2, INT32_MAX, "vocabulary V");
  keys.integer("max_seq_len", c.max_seq_len, 1, 1 << 24, "longest sequence; positions are below it");
  keys.real("rope_theta", c.rope_theta, 1.0, 1e12, "base of the rotary position frequencies");
  keys.real("norm_eps", c.norm_eps, 1e-12, 1e-1, "added to the mean square in RMSNorm");
  keys.flag("tied_head", c.tied_head, "the head uses the embedding table");
  keys.flag("qk_norm", c.qk_norm, "RMSNorm over each head of q and k, before RoPE");
  keys.real("init_std", c.init_std, 1e-6, 1.0,
            "standard deviation of initial matrices; output and down use init_std / sqrt(2 * layers)");
}

ModelConfig resolve(ModelConfig c) {
  check(c.dim > 0 && c.layers > 0 && c.heads > 0 && c.vocab > 1 && c.max_seq_len > 0,
        "model.dim ({}), layers ({}), heads ({}) and max_seq_len ({}) must be at least 1 and vocab ({}) at least 2",
        c.dim, c.layers, c.heads, c.max_seq_len, c.vocab);
  check(c.vocab <= INT32_MAX, "model.vocab is {}; token ids are 32-bit, so it must be at most {}", c.vocab, INT32_MAX);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  check(c.kv_heads > 0 && c.heads % c.kv_heads == 0,
        "model.kv_heads is {}; it must divide heads ({}), since each key/value head serves the same number of query "
        "heads",
        c.kv_heads, c.heads);
  if (c.head_size == 0) {
    check(c.dim % c.heads == 0,
          "model.heads is {}, which does not divide dim ({}); change one of them or give head_size", c.heads, c.dim);
    c.head_size = c.dim / c.heads;
  }
  check(c.head_size > 0 && c.head_size % 2 == 0,
        "model.head_size is {}; RoPE rotates pairs, so it must be even and above 0", c.head_size);
  check(
      c.head_size <= kernels::kMaxHeadSize,
      "model.head_size is {} (of dim {} and {} heads where it is not given); it must be at most {}: raise model.heads "
      "or give model.head_size",
      c.head_size, c.dim, c.heads, kernels::kMaxHeadSize);
  check(std::isfinite(c.ffn_multiplier) && c.ffn_multiplier > 0, "model.ffn_multiplier is {}; it must be above 0",
        c.ffn_multiplier);
  if (c.ffn == 0) c.ffn = ffn_width(c.dim, c.ffn_multiplier);
  check(c.ffn > 0, "model.ffn is {}; it must be at least 1, or 0 for the width rule", c.ffn);
  check(c.rope_theta >= 1.0, "model.rope_theta is {}; it must be at least 1", c.rope_theta);
  check(c.norm_eps > 0, "model.norm_eps is {}; it must be above 0", c.norm_eps);
  check(c.init_std > 0, "model.init_std is {}; it must be above 0", c.init_std);
  return c;
}

}  // namespace mylos::model
