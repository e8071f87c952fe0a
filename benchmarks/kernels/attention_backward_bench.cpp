// The backward pass of dense causal attention by our own warpgroups and by cuDNN in any order, in turns on the same operands under load.
// 16,384 tokens, windows of a fused projection.
//
//   bench_kernels_attention_backward [SECONDS [S...]]     of load for each of the two a round, 0.25 by default
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "benchmarks/harness/timer.hpp"
#include "benchmarks/kernels/attention_operands.hpp"
#include "benchmarks/kernels/trial.hpp"
#include "kernels/attention/providers.hpp"
#include "measure/statistics.hpp"

namespace mylos {
namespace {

namespace attention = kernels::attention;
using attention::Provider;

constexpr int kTokens = 16384, kRounds = 6;
constexpr kernels::AttentionOptions kAnyOrder{.deterministic = false, .documents = false};

struct Bench : bench::AttentionOperands {
  bench::Owned work;

  explicit Bench(const kernels::AttentionShape& shape)
      : AttentionOperands(shape),
        work(bench::empty(DType::u8, {std::max(bytes(Provider::cudnn), bytes(Provider::warpgroups))})) {
    attention::forward_with(Provider::cudnn, stream, q(qkv), k(qkv), v(qkv), {}, work.tensor, out.tensor, lse.tensor);
  }
  std::int64_t bytes(Provider p) const {
    return std::max(attention::workspace_of(p, s, true, kAnyOrder), attention::workspace_of(p, s, false, kAnyOrder));
  }
  void run(Provider p) {
    attention::backward_with(p, stream, q(qkv), k(qkv), v(qkv), {}, out.tensor, lse.tensor, dout.tensor, work.tensor,
                             q(dqkv), k(dqkv), v(dqkv), kAnyOrder);
  }
  double seconds(Provider p, int calls) {
    bench::Timer timer(stream, {[&] { run(p); }}, bench::Runs::queued);
    return timer.seconds(calls) / calls;
  }
  std::vector<float> results(Provider p) {
    run(p);
    const std::vector<bf16> values = host(dqkv);
    return {values.begin(), values.end()};
  }
};

// Root mean square of the difference over that of the values.
double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, square = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (double(a[i]) - double(b[i])) * (double(a[i]) - double(b[i]));
    square += double(b[i]) * double(b[i]);
  }
  return std::sqrt(difference / square);
}

int main_of(int argc, char** argv) {
  const Runtime runtime;
  const double load = argc > 1 ? std::atof(argv[1]) : 0.25;
  std::vector<std::int64_t> sequences;
  for (int i = 2; i < argc; ++i) sequences.push_back(std::clamp(std::atoi(argv[i]), 1, kTokens));
  if (sequences.empty()) sequences = {512, 1024, 2048, 4096, 8192, 16384};
  struct Heads {
    int all, kv, size;
  };
  for (const auto& [heads, kv_heads, size] : {Heads{32, 8, 128}, Heads{16, 16, 128}, Heads{12, 12, 64}})
    for (const std::int64_t S : sequences) {
      Bench b({kTokens / S, S, heads, kv_heads, size});
      if (!attention::has_provider(Provider::warpgroups, b.s, DType::bf16)) {
        fmt::print("no warpgroups in this build or on this device\n");
        return 1;
      }
      const double apart = distance(b.results(Provider::warpgroups), b.results(Provider::cudnn));
      std::vector<double> own, library, ratios;
      for (int round = 0; round < kRounds; ++round) {
        const Provider order[] = {round % 2 ? Provider::cudnn : Provider::warpgroups,
                                  round % 2 ? Provider::warpgroups : Provider::cudnn};
        for (const Provider p : order) {
          const int calls = std::max(1, int(load / b.seconds(p, 2)));
          (p == Provider::cudnn ? library : own).push_back(b.seconds(p, calls));
        }
        ratios.push_back(library.back() / own.back());
      }
      const double flops = 5.0 * double(kTokens) * double(S) * heads * size;
      fmt::print(
          "S {:5} heads {:2}/{:2} of {:3}: warpgroups {:8.1f} us {:6.1f} TFLOP/s, cuDNN {:8.1f} us, {:5.3f}x ({:5.3f} "
          "to "
          "{:5.3f}), apart {:.2e}\n",
          S, heads, kv_heads, size, measure::median(own) * 1e6, flops / measure::median(own) * 1e-12,
          measure::median(library) * 1e6, measure::median(ratios), *std::ranges::min_element(ratios),
          *std::ranges::max_element(ratios), apart);
      std::fflush(stdout);
    }
  return 0;
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) {
  return mylos::bench::run_trial("bench_kernels_attention_backward", mylos::main_of, argc, argv);
}
