// Products of an 8 B step by our own tiles, in every schedule, against cuBLASLt's (tuned, where a file says how), and SwiGLU in their ends against SwiGLU behind them: in turns,
// under load, so that a card at its power cap is at it for all of them alike.
//
//   bench_kernels_tile_schedules [SECONDS [PRODUCTS]]     of load for each, 2 by default; PRODUCTS as train.products
#include <fmt/core.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "benchmarks/harness/timer.hpp"
#include "benchmarks/kernels/operands.hpp"
#include "benchmarks/kernels/trial.hpp"
#include "kernels/linear_swiglu/gated_tiles.hpp"
#include "kernels/linear_swiglu/linear_swiglu.hpp"
#include "kernels/matmul/matmul.hpp"
#include "kernels/matmul/tiles.hpp"
#include "train/products.hpp"

namespace mylos {
namespace {

namespace k = kernels;
using bench::Call;
using bench::Way;
using k::LinearSwiglu;
using k::Transpose;
using k::detail::TileOptions;

constexpr std::int64_t T = 16384, D = 4096, F = 14336;
constexpr int kRounds = 8;

const std::vector<TileOptions> kSchedules{{8, 0}, {8, 1}, {8, 2}, {8, 3}};

std::string name_of(const TileOptions& o) { return fmt::format("strip {} lag {}", o.strip, o.lag); }

// The first way is what the others are held against.
void contest(const Stream& stream, const std::string& what, std::vector<Way> ways, double flops, double load) {
  std::deque<bench::Timer> timers;  // that stay where they are
  for (const Way& way : ways) timers.emplace_back(stream, std::vector<Call>{way.call}, bench::Runs::queued);
  const double once = timers[0].seconds(5) / 5;
  const auto calls = [&](double seconds) { return std::max<std::int64_t>(1, std::int64_t(seconds / once)); };
  timers[0].seconds(calls(1));  // the card gets to its cap
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const std::int64_t n = calls(load / kRounds);
      timers[i].seconds(calls(load / kRounds / 4));
      ways[i].times.push_back(timers[i].seconds(n) / double(n));
    }
  bench::print_ways(what, ways, flops);
}

struct Bench {
  Stream stream;
  double load = 2;
  bench::Owned x = bench::normal(stream, DType::bf16, {T, D}, 1, 1),
               wide = bench::normal(stream, DType::bf16, {T, 2 * F}, 1, 2),
               half = bench::normal(stream, DType::bf16, {T, F}, 1, 3),
               w_wide = bench::normal(stream, DType::bf16, {2 * F, D}, 0.02f, 4),
               w_half = bench::normal(stream, DType::bf16, {D, F}, 0.02f, 5), y = bench::empty(DType::bf16, {T, D}),
               gradient = bench::empty(DType::bf16, {T, 2 * F}),
               work = bench::empty(DType::u8, {k::matmul_workspace()});

  void product(const std::string& what, const Tensor& a, bool ta, const Tensor& b, bool tb, const Tensor& c,
               float beta = 0) {
    k::MatmulOptions options{
        .a = ta ? Transpose::yes : Transpose::no, .b = tb ? Transpose::yes : Transpose::no, .beta = beta};
    std::vector<Way> ways{{"cuBLASLt", [=, this] { k::matmul(stream, a, b, options, work.tensor, c); }}};
    const k::detail::Product p = k::detail::checked_product(a, b, options, c);
    check(k::detail::tiles_take(p), "no tiles for {}", what);
    for (const TileOptions& o : kSchedules)
      ways.push_back({name_of(o), [=, this] { k::detail::tiles_product(stream, p, o); }});
    contest(stream, what, std::move(ways), 2.0 * double(p.m) * double(p.n) * double(p.l), load);
  }

  void swiglu() {
    std::vector<Way> forward{{"apart", [this] {
                                k::linear_swiglu_forward(stream, x.tensor, w_wide.tensor, work.tensor, wide.tensor,
                                                         half.tensor, LinearSwiglu::apart);
                              }}};
    std::vector<Way> backward{{"apart", [this] {
                                 k::linear_swiglu_backward(stream, x.tensor, w_half.tensor, wide.tensor, work.tensor,
                                                           half.tensor, gradient.tensor, LinearSwiglu::apart);
                               }}};
    for (const TileOptions& o : kSchedules) {
      forward.push_back({name_of(o), [=, this] {
                           k::device::gated_tiles(stream, x.tensor, w_wide.tensor, wide.tensor, half.tensor, o);
                         }});
      backward.push_back({name_of(o), [=, this] {
                            k::device::gradient_tiles(stream, x.tensor, w_half.tensor, wide.tensor, gradient.tensor, o);
                          }});
    }
    contest(stream, "gate, up and SwiGLU", std::move(forward), 4.0 * T * D * F, load);
    contest(stream, "down's and SwiGLU's gradient", std::move(backward), 2.0 * T * D * F, load);
  }
};

int main_of(int argc, char** argv) {
  const Runtime runtime;
  check(k::has_provider(k::MatmulProvider::tiles, DType::bf16),
        "{} has no tiles: they need a Hopper card and a build for it", device_info().name);
  Bench b;
  b.load = argc > 1 ? std::atof(argv[1]) : 2;
  fmt::print("{}\n{}\nlast column: the first way's time over this one's\n", device_info().name,
             train::use_products(argc > 2 ? argv[2] : ""));
  b.swiglu();
  b.product("gate, up", b.x.tensor, false, b.w_wide.tensor, true, b.wide.tensor);
  b.product("down's input gradient", b.x.tensor, false, b.w_half.tensor, false, b.half.tensor);
  b.product("gate, up's weight gradient", b.wide.tensor, true, b.x.tensor, false, b.w_wide.tensor);
  b.product("gate, up's, added", b.wide.tensor, true, b.x.tensor, false, b.w_wide.tensor, 1);
  b.product("gate, up's input gradient", b.wide.tensor, false, b.w_wide.tensor, false, b.y.tensor);
  b.product("down", b.half.tensor, false, b.w_half.tensor, true, b.y.tensor);
  b.product("down, residual", b.half.tensor, false, b.w_half.tensor, true, b.y.tensor, 1);
  return 0;
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) {
  return mylos::bench::run_trial("bench_kernels_tile_schedules", mylos::main_of, argc, argv);
}
