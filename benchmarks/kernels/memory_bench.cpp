// Every memory-bound op of a training step beside copies of the same run: bytes that its contract says must move, over time.
// "of copy" is over the rate of a copy of 1 GiB, "of same" over that of a copy that moves as many bytes as the op.
//
// On a GPU a sample is at least 20 ms of recorded launches between two events, so that neither the host nor the clock
// shows; calls rotate over sets of operands of at least 512 MiB together, so that the L2 cache (50 MB) does not help. On
// a CPU shapes are small and caches warm: a check that all runs, not a measurement of memory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "benchmarks/kernels/bench_support.hpp"
#include "kernels/adamw/adamw.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "kernels/embedding/embedding.hpp"
#include "kernels/linear_cross_entropy/softmax_loss.hpp"
#include "kernels/lion/lion.hpp"
#include "kernels/norm/norm.hpp"
#include "kernels/rms_norm/rms_norm.hpp"
#include "kernels/rope/rope.hpp"
#include "kernels/schedule_free/schedule_free.hpp"
#include "kernels/swiglu/swiglu.hpp"
#include "tensor/async.hpp"

namespace mylos {
namespace {

namespace k = kernels;
using Call = std::function<void()>;

constexpr int kSamples = 5;
constexpr double kSampleSeconds = 0.02;

struct Preset {
  const char* name;
  std::int64_t tokens, dim, ffn, heads, kv_heads, head_size, vocabulary, chunk, parameters;
};
constexpr Preset kGpuPresets[] = {{"7b", 16384, 4096, 14336, 32, 8, 128, 128256, 8192, std::int64_t(1) << 30},
                                  {"125m", 8192, 768, 2048, 12, 12, 64, 32000, 8192, 134105856}};
constexpr Preset kCpuPresets[] = {{"small", 512, 256, 768, 4, 2, 64, 2048, 512, 1 << 20}};

// One allocation that every case cuts its operands from. It is filled with bf16 normal numbers once: read as f32 they
// are normal numbers too.
class Pool {
 public:
  explicit Pool(std::int64_t bytes) : owned_(bench::empty(DType::bf16, {bytes / 2})) {
    k::random_normal(stream_, 1, 0, 1.0f, owned_.tensor);
    stream_.fence();
  }
  const Stream& stream() const { return stream_; }
  std::int64_t used() const { return used_; }
  std::int64_t left() const { return owned_.buffer.bytes() - used_; }
  void reset() { used_ = 0; }

  Tensor take(DType dtype, std::initializer_list<std::int64_t> extents) {
    const Tensor window(static_cast<char*>(owned_.buffer.data()) + used_, dtype, extents);
    check(window.bytes() <= left(), "the benchmark's pool has {} bytes left; {} takes {}", left(), window.describe(),
          window.bytes());
    used_ += (window.bytes() + 255) / 256 * 256;
    return window;
  }
  Tensor integers(const std::vector<std::int32_t>& values) {
    const Tensor t = take(DType::i32, {std::int64_t(values.size())});
    upload(stream_, values.data(), t.bytes(), t);
    return t;
  }

 private:
  Stream stream_;
  bench::Owned owned_;
  std::int64_t used_ = 0;
};

std::optional<Pool> pool;  // between the runtime's start and its end

struct Row {
  std::string name;
  double bytes, seconds, copy_seconds;  // of a copy of as many bytes
};
std::vector<Row> table;
double copy_rate = 0;                            // bytes per second of the faster copy
std::map<std::int64_t, double> seconds_of_copy;  // by bytes

// Calls that are timed together, recorded where that is possible.
class Timed {
 public:
  explicit Timed(std::vector<Call> calls) : calls_(std::move(calls)) {
    once();
    pool->stream().fence();
    if (Graph::available()) graph_.emplace(pool->stream(), [this] { once(); });
    seconds(1);
    rounds_ = std::max<std::int64_t>(1, std::int64_t(std::ceil(kSampleSeconds / seconds(1))));
  }
  // Seconds of one call.
  double sample() { return seconds(rounds_) / double(rounds_ * std::int64_t(calls_.size())); }

 private:
  void once() {
    for (const Call& call : calls_) call();
  }
  double seconds(std::int64_t rounds) {
    start_.record(pool->stream());
    for (std::int64_t i = 0; i < rounds; ++i) graph_ ? graph_->launch(pool->stream()) : once();
    stop_.record(pool->stream());
    stop_.wait();
    return stop_.seconds_since(start_);
  }

  std::vector<Call> calls_;
  std::optional<Graph> graph_;
  Event start_, stop_;
  std::int64_t rounds_ = 1;
};

double median(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + std::ptrdiff_t(samples.size() / 2), samples.end());
  return samples[samples.size() / 2];
}

// As many sets of operands as it takes that caches do not help; `make` cuts one from the pool and returns the call on it.
std::vector<Call> rotating(const std::function<Call(Pool&)>& make) {
  pool->reset();
  std::vector<Call> calls{make(*pool)};
  const std::int64_t footprint = pool->used(), rotate = device_info().is_gpu ? std::int64_t(1) << 29 : 0;
  while (pool->used() < rotate && pool->left() >= footprint) calls.push_back(make(*pool));
  while (calls.size() < 4) calls.push_back(calls.front());
  return calls;
}

Call copy_by_packs(Pool& p, std::int64_t bytes) {
  const std::int64_t n = std::max<std::int64_t>(1, bytes / 4);  // bf16, read and written
  const Tensor from = p.take(DType::bf16, {n}), to = p.take(DType::bf16, {n});
  return [=, &p] { k::convert(p.stream(), from, to); };
}

double seconds_of_copy_of(std::int64_t bytes) {
  const auto known = seconds_of_copy.find(bytes);
  if (known != seconds_of_copy.end()) return known->second;
  Timed timed(rotating([=](Pool& p) { return copy_by_packs(p, bytes); }));
  std::vector<double> samples;
  for (int i = 0; i < kSamples; ++i) samples.push_back(timed.sample());
  return seconds_of_copy[bytes] = median(samples);
}

void add(const std::string& name, double bytes, const std::function<Call(Pool&)>& make) {
  const auto run = [=](benchmark::State& state) {
    std::vector<double> samples;
    {
      Timed timed(rotating(make));
      for (auto _ : state) {
        samples.push_back(timed.sample());
        state.SetIterationTime(samples.back());
      }
    }
    const double seconds = median(samples), copy_seconds = seconds_of_copy_of(std::int64_t(bytes));
    if (name.starts_with("copy")) copy_rate = std::max(copy_rate, bytes / seconds);
    state.counters["TB/s"] = bytes / seconds * 1e-12;
    if (copy_rate > 0) state.counters["of_copy"] = bytes / seconds / copy_rate;
    state.counters["of_same"] = copy_seconds / seconds;
    table.push_back({name, bytes, seconds, copy_seconds});
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->UseManualTime()->Iterations(kSamples)->Unit(benchmark::kMicrosecond);
}

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
