// Every memory-bound op of a training step beside copies of the same run: bytes that its contract says must move, over time.
// "of copy" is over the rate of a copy of 1 GiB, "of same" over that of a copy that moves as many bytes as the op.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "benchmarks/kernels/memory_timing.hpp"
#include "kernels/adamw/adamw.hpp"
#include "kernels/batch/batch.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"
#include "kernels/lion/lion.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/rms_norm/rms_norm.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/schedule_free/schedule_free.hpp"
#include "kernels/swiglu/swiglu.hpp"

namespace mylos {
namespace {

struct Preset {
  const char* name;
  std::int64_t tokens, dim, ffn, heads, kv_heads, head_size, vocabulary, chunk, parameters;
};
constexpr Preset kGpuPresets[] = {{"7b", 16384, 4096, 14336, 32, 8, 128, 128256, 8192, std::int64_t(1) << 30},
                                  {"125m", 8192, 768, 2048, 12, 12, 64, 32000, 8192, 134105856}};
constexpr Preset kCpuPresets[] = {{"small", 512, 256, 768, 4, 2, 64, 2048, 512, 1 << 20}};

// Words as often as in a text (Zipf), spread over the vocabulary, or all as often.
enum class Words { zipf, uniform };
std::vector<std::int32_t> draw(const Preset& s, Words words) {
  std::mt19937_64 generator(5);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  std::vector<std::int32_t> drawn;
  for (std::int64_t i = 0; i < s.tokens; ++i) {
    const double at = uniform(generator);
    const auto rank = words == Words::zipf ? std::int64_t(std::exp(at * std::log(double(s.vocabulary)))) - 1
                                           : std::int64_t(at * double(s.vocabulary));
    drawn.push_back(std::int32_t(rank * 7919 % s.vocabulary));
  }
  return drawn;
}

void add_norms(const Preset& s) {
  const std::string prefix = std::string(s.name) + "/";
  const std::int64_t T = s.tokens, D = s.dim;
  const double matrix = double(T) * double(D) * 2;
  add(prefix + "rms_norm_forward", 2 * matrix, [=](Pool& p) -> Call {
    const Tensor x = p.take(DType::bf16, {T, D}), y = p.take(DType::bf16, {T, D}), w = p.take(DType::bf16, {D}),
                 rstd = p.take(DType::f32, {T});
    return [=, &p] { k::rms_norm_forward(p.stream(), x, w, 1e-5f, y, rstd); };
  });
  add(prefix + "residual_rms_norm_forward", 4 * matrix, [=](Pool& p) -> Call {
    const Tensor x = p.take(DType::bf16, {T, D}), residual = p.take(DType::bf16, {T, D}),
                 sum = p.take(DType::bf16, {T, D}), y = p.take(DType::bf16, {T, D}), w = p.take(DType::bf16, {D}),
                 rstd = p.take(DType::f32, {T});
    return [=, &p] { k::residual_rms_norm_forward(p.stream(), x, residual, w, 1e-5f, sum, y, rstd); };
  });
  add(prefix + "rms_norm_apply", 2 * matrix, [=](Pool& p) -> Call {
    const Tensor x = p.take(DType::bf16, {T, D}), y = p.take(DType::bf16, {T, D}), w = p.take(DType::bf16, {D}),
                 rstd = p.take(DType::f32, {T});
    return [=, &p] { k::rms_norm_apply(p.stream(), x, w, rstd, y); };
  });
  add(prefix + "rms_norm_backward", 4 * matrix, [=](Pool& p) -> Call {
    const Tensor dy = p.take(DType::bf16, {T, D}), x = p.take(DType::bf16, {T, D}), dx = p.take(DType::bf16, {T, D}),
                 w = p.take(DType::bf16, {D}), dw = p.take(DType::bf16, {D}), rstd = p.take(DType::f32, {T}),
                 work = p.take(DType::u8, {k::rms_norm_backward_workspace(T, D)});
    k::fill(p.stream(), 1.0, rstd);
    return [=, &p] { k::rms_norm_backward(p.stream(), dy, x, w, rstd, dx, false, work, dx, dw); };
  });
}

void add_block(const Preset& s) {
  const std::string prefix = std::string(s.name) + "/";
  const std::int64_t T = s.tokens, F = s.ffn, rotated = s.heads + s.kv_heads, all = rotated + s.kv_heads;
  const double values = double(T) * double(F) * 2;
  add(prefix + "swiglu_forward", 3 * values, [=](Pool& p) -> Call {
    const Tensor gate_up = p.take(DType::bf16, {T, 2 * F}), out = p.take(DType::bf16, {T, F});
    return [=, &p] { k::swiglu_forward(p.stream(), gate_up, out); };
  });
  add(prefix + "swiglu_backward", 5 * values, [=](Pool& p) -> Call {
    const Tensor gate_up = p.take(DType::bf16, {T, 2 * F}), dout = p.take(DType::bf16, {T, F}),
                 dgate_up = p.take(DType::bf16, {T, 2 * F});
    return [=, &p] { k::swiglu_backward(p.stream(), gate_up, dout, dgate_up); };
  });
  add(prefix + "rope", 2.0 * double(T * rotated * s.head_size) * 2, [=](Pool& p) -> Call {
    const Tensor qkv = p.take(DType::bf16, {T, all, s.head_size}), angles = p.take(DType::f32, {T, s.head_size});
    std::vector<std::int32_t> places;
    for (std::int64_t t = 0; t < T; ++t) places.push_back(std::int32_t(t % std::max<std::int64_t>(1, T / 2)));
    const Tensor positions = p.integers(places);
    k::rope_table(p.stream(), 5e5, angles);
    return [=, &p] { k::rope(p.stream(), k::RopeDirection::forward, angles, positions, qkv.slice(1, 0, rotated)); };
  });
}

void add_embedding(const Preset& s, Words words, const std::string& suffix) {
  const std::string prefix = std::string(s.name) + "/";
  const std::int64_t T = s.tokens, D = s.dim, V = s.vocabulary;
  const std::vector<std::int32_t> drawn = draw(s, words);
  const auto touched = std::int64_t(std::set<std::int32_t>(drawn.begin(), drawn.end()).size());
  const double row = double(D) * 2;
  add(prefix + "embedding_forward/" + suffix, double(T + touched) * row, [=](Pool& p) -> Call {
    const Tensor embedding = p.take(DType::bf16, {V, D}), out = p.take(DType::bf16, {T, D}), tokens = p.integers(drawn);
    return [=, &p] { k::embedding_forward(p.stream(), embedding, tokens, out); };
  });
  add(prefix + "embedding_backward/" + suffix, double(T + 2 * touched) * row, [=](Pool& p) -> Call {
    const Tensor gradient = p.take(DType::bf16, {V, D}), dout = p.take(DType::bf16, {T, D}), tokens = p.integers(drawn),
                 work = p.take(DType::u8, {k::embedding_backward_workspace(T, V)});
    return [=, &p] { k::embedding_backward(p.stream(), tokens, dout, work, gradient); };
  });
}

void add_ends(const Preset& s) {
  const std::string prefix = std::string(s.name) + "/";
  const std::int64_t V = s.vocabulary;
  add_embedding(s, Words::zipf, "zipf");
  add_embedding(s, Words::uniform, "uniform");
  const std::vector<std::int32_t> drawn = draw(s, Words::zipf);
  // The pass between the head's products.
  const double logits = double(s.chunk) * double(V) * 2;
  const auto rows = [=](Pool& p) -> k::detail::LossRows {
    const Tensor z = p.take(DType::bf16, {s.chunk, V}), loss = p.take(DType::f32, {s.chunk}),
                 labels = p.integers({drawn.begin(), drawn.begin() + s.chunk}), claims = p.take(DType::i32, {1});
    return {
        z.data(), DType::bf16, s.chunk, V, V, labels.as<std::int32_t>(), loss.as<float>(), claims.as<std::int32_t>()};
  };
  add(prefix + "softmax_loss", logits, [=](Pool& p) -> Call {
    const k::detail::LossRows r = rows(p);
    return [=, &p] { k::detail::softmax_loss(p.stream(), r); };
  });
  add(prefix + "softmax_loss_gradient", 2 * logits, [=](Pool& p) -> Call {
    const k::detail::LossRows r = rows(p);
    const Tensor scale = p.take(DType::f32, {1});
    k::fill(p.stream(), 1.0, scale);
    return [=, &p] { k::detail::softmax_loss_gradient(p.stream(), r, scale.as<float>()); };
  });
}

struct State {
  const char* name;
  DType gradient, moments;
  bool low;
};

void add_optimizer(const Preset& s) {
  const std::string prefix = std::string(s.name) + "/";
  const std::int64_t n = s.parameters;
  for (const DType dtype : {DType::bf16, DType::f32}) {
    add(prefix + "sum_of_squares/" + std::string(name_of(dtype)), double(n * size_of(dtype)), [=](Pool& p) -> Call {
      const Tensor g = p.take(dtype, {n}), work = p.take(DType::u8, {k::sum_workspace()}),
                   result = p.take(DType::f64, {1});
      return [=, &p] { k::sum_of_squares(p.stream(), g, work, result); };
    });
  }
  for (const State& state : {State{"bf16", DType::bf16, DType::bf16, false},
                             {"bf16_f32_gradients", DType::f32, DType::bf16, false},
                             {"exact_bf16_moments", DType::bf16, DType::bf16, true},
                             {"exact_f32_moments", DType::bf16, DType::f32, true},
                             {"exact_f32_moments_f32_gradients", DType::f32, DType::f32, true}}) {
    const double rest = double(size_of(state.gradient) + (state.low ? 8 : 4)),
                 moment = 2.0 * double(size_of(state.moments));
    const DType z_dtype = state.low ? DType::f32 : DType::bf16;
    struct Operands {
      k::FlatOperands flat;
      Tensor m, v;
    };
    const auto operands = [=](Pool& p, DType m, DType v) -> Operands {
      const Operands o{{p.take(state.gradient, {n}), p.take(DType::f32, {1}), p.take(DType::bf16, {n}),
                        state.low ? p.take(DType::u16, {n}) : Tensor{}},
                       p.take(m, {n}),
                       p.take(v, {n})};
      k::fill(p.stream(), 0.5, o.flat.scale);
      k::fill(p.stream(), 1e-3, o.v);  // never negative
      return o;
    };
    add(prefix + "adamw/" + state.name, double(n) * (rest + 2 * moment), [=](Pool& p) -> Call {
      const Operands o = operands(p, state.moments, state.moments);
      const k::AdamWStep step{.learning_rate = 1e-4f, .weight_decay = 0.1f, .step = 100, .seed = 7};
      return [=, &p] { k::adamw(p.stream(), step, o.flat.g, o.flat.scale, o.flat.p, o.flat.low, o.m, o.v); };
    });
    const k::FlatStep flat{.learning_rate = 1e-4f, .weight_decay = 0.1f, .step = 100, .seed = 7};
    add(prefix + "lion/" + state.name, double(n) * (rest + moment), [=](Pool& p) -> Call {
      const Operands o = operands(p, state.moments, DType::bf16);
      return [=, &p] { k::lion(p.stream(), {.flat = flat}, o.flat, o.m); };
    });
    add(prefix + "schedule_free/" + state.name, double(n) * (rest + moment + 2.0 * double(size_of(z_dtype))),
        [=](Pool& p) -> Call {
          const Operands o = operands(p, z_dtype, state.moments);
          const Tensor average = p.take(DType::f32, {1});
          k::fill(p.stream(), 0.01, average);
          return [=, &p] { k::schedule_free(p.stream(), {.flat = flat}, o.flat, average, o.m, o.v); };
        });
  }
}

// Micro-batches of far more rows than a step has, which takes a few microseconds; a document begins every 481 tokens.
void add_batch(std::int64_t rows, std::int64_t sequence) {
  const std::int64_t words = (sequence + 1 + 31) / 32;
  std::vector<std::int32_t> begins(std::size_t(rows * words), 0);
  for (std::int64_t t = 0; t < rows * sequence; t += 481)
    begins[std::size_t(t / sequence * words + t % sequence / 32)] |= std::int32_t(1u << (t % sequence % 32));
  for (const DType dtype : {DType::u16, DType::u32}) {
    const double bytes = double(rows * (sequence + 1) * size_of(dtype)) + 2.0 * double(rows * words) * 4 +
                         16.0 * double(rows * sequence);
    add("batch/widen/" + std::string(name_of(dtype)), bytes, [=](Pool& p) -> Call {
      const auto masks = [&](const Tensor& t) { return t.view_as(DType::u32).reshape({rows, words}); };
      const Tensor tokens = p.take(dtype, {rows, sequence + 1}), mask = masks(p.integers(begins)),
                   none = p.take(DType::i32, {rows, words});
      fill_zero(p.stream(), none);
      const auto out = [&] { return p.take(DType::i32, {rows, sequence}); };
      const Tensor a = out(), b = out(), c = out(), d = out();
      return [=, &p] { k::widen_batch(p.stream(), {tokens, mask, masks(none)}, a, b, c, d); };
    });
  }
  add("batch/sum_rows", 4.0 * double(rows * sequence), [=](Pool& p) -> Call {
    const Tensor loss = p.take(DType::f32, {rows, sequence}), sums = p.take(DType::f64, {rows});
    return [=, &p] { k::sum_rows(p.stream(), loss, sums); };
  });
}

void add_all() {
  const bool gpu = device_info().is_gpu;
  pool.emplace(std::int64_t(1) << (gpu ? 35 : 27));
  const std::int64_t n = std::int64_t(1) << (gpu ? 29 : 22);
  add("copy/driver", 4.0 * double(n), [=](Pool& p) -> Call {
    const Tensor from = p.take(DType::bf16, {n}), to = p.take(DType::bf16, {n});
    return [=, &p] { copy(p.stream(), from, to); };
  });
  add("copy/packs", 4.0 * double(n), [=](Pool& p) { return copy_by_packs(p, 4 * n); });
  for (const Preset& s : gpu ? std::span<const Preset>(kGpuPresets) : std::span<const Preset>(kCpuPresets)) {
    add_norms(s);
    add_block(s);
    add_ends(s);
    add_optimizer(s);
  }
  gpu ? add_batch(4096, 4096) : add_batch(16, 512);
}

void finish() {
  std::printf("\n%-42s %9s %10s %8s %8s %8s\n", "op", "GB", "us", "TB/s", "of copy", "of same");
  for (const Row& row : table)
    std::printf("%-42s %9.3f %10.1f %8.3f %8.3f %8.3f\n", row.name.c_str(), row.bytes * 1e-9, row.seconds * 1e6,
                row.bytes / row.seconds * 1e-12, copy_rate > 0 ? row.bytes / row.seconds / copy_rate : NAN,
                row.copy_seconds / row.seconds);
  pool.reset();
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) { return mylos::bench::main(argc, argv, mylos::add_all, mylos::finish); }
