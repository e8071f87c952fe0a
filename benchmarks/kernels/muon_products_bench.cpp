// Muon's products on the shapes of two models: the symmetric ones by tiles of both sizes and as whole products of cuBLASLt; the general ones
// by cuBLASLt's first choice and the best of its candidates; and a whole orthogonalisation of each group of matrices. In turns, each recorded.
//
//   bench_kernels_muon_products [SECONDS]     for each way of each line, 0.08 by default
#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/harness/timer.hpp"
#include "benchmarks/kernels/operands.hpp"
#include "benchmarks/kernels/trial.hpp"
#include "kernels/matmul/batched.hpp"
#include "kernels/matmul/cublaslt.hpp"
#include "kernels/muon/muon.hpp"
#include "kernels/muon/symmetric_product.hpp"

namespace mylos {
namespace {

namespace k = kernels;
using bench::Call;
using bench::Way;
using k::Batch;
using k::MatmulOptions;
using k::Transpose;
using k::detail::Mirrored;

constexpr int kRounds = 5, kRecorded = 8;  // calls in one graph

// Rates are of `flops`; the last column is the first way's time over this one's.
void contest(const Stream& stream, const std::string& what, std::vector<Way> ways, double flops, double load) {
  std::deque<bench::Timer> timers;  // that stay where they are
  for (const Way& way : ways)
    timers.emplace_back(stream, std::vector<Call>(kRecorded, way.call), bench::Runs::recorded);
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < ways.size(); ++i) {
      const double once = timers[i].seconds(1);
      const auto n = std::max<std::int64_t>(1, std::int64_t(load / kRounds / once));
      ways[i].times.push_back(timers[i].seconds(n) / double(n * timers[i].calls_per_unit()));
    }
  bench::print_ways(what, ways, flops);
}

const std::vector<std::pair<std::string, Mirrored>> kTiles{{"tiles 192", Mirrored::tiles_192},
                                                           {"tiles 128", Mirrored::tiles_128}};

// Of the first and the last matrix.
std::vector<float> ends_of(const Stream& stream, const Tensor& t) {
  std::vector<float> v;
  for (const std::int64_t m : {std::int64_t(0), t.extent(0) - 1}) {
    const Tensor one = t.slice(0, m, m + 1);
    std::vector<std::uint16_t> raw(std::size_t(one.size()));
    download(stream, one, raw.data(), one.bytes());
    v.reserve(2 * raw.size());
    for (const std::uint16_t x : raw) v.push_back(std::bit_cast<float>(std::uint32_t(x) << 16));
  }
  return v;
}

struct Group {
  std::int64_t count, rows, columns;
  std::int64_t side() const { return std::min(rows, columns); }
  std::int64_t length() const { return std::max(rows, columns); }
  std::string name() const { return fmt::format("{} x [{}, {}]", count, rows, columns); }
};

struct Bench {
  Stream stream;
  double load = 0.08;
  bench::Owned work = bench::empty(DType::u8, {k::matmul_workspace()});

  static Tensor first(const Tensor& t) { return t.slice(0, 0, 1).reshape({t.extent(1), t.extent(2)}); }

  // Off by how much of the root mean square at most, and elements unlike their mirror images, in the first and the last matrix.
  void compare(const std::string& name, const Tensor& c, const std::vector<float>& want) {
    const std::vector<float> got = ends_of(stream, c);
    const auto s = std::size_t(c.extent(1));
    double worst = 0, squares = 0;
    std::size_t unlike = 0;
    for (std::size_t first = 0; first < got.size(); first += s * s)
      for (std::size_t i = 0; i < s; ++i)
        for (std::size_t j = 0; j < s; ++j) {
          const std::size_t e = first + i * s + j;
          const double off = std::abs(double(got[e]) - double(want[e]));
          worst = off <= worst ? worst : off;  // a NaN stays
          squares += double(want[e]) * double(want[e]);
          unlike += i > j && got[e] != got[first + j * s + i];
        }
    fmt::print("    {:20} off by {:.4f} of the root mean square, {} unlike their mirror image\n", name,
               worst / std::sqrt(squares / double(got.size())), unlike);
  }

  void symmetric(const std::string& what, const Tensor& a, const Tensor& b, const MatmulOptions& options,
                 const Batch& batch, const Tensor& c) {
    const std::int64_t s = c.extent(1), l = a.extent(options.a == Transpose::no ? 2 : 1);
    const auto call = [=, this](Mirrored how) -> Call {
      return [=, this] {
        k::detail::symmetric_product(stream, first(a), first(b), options, batch, how, work.tensor, first(c));
      };
    };
    call(Mirrored::no)();
    const std::vector<float> want = ends_of(stream, c);
    std::vector<Way> ways;
    for (const auto& [name, tiles] : kTiles) {
      ways.push_back({name, call(tiles)});
      fill_zero(stream, c);
      ways.back().call();
      compare(name, c, want);
    }
    ways.push_back({"cuBLASLt, whole", call(Mirrored::no)});
    contest(stream, what, std::move(ways), double(batch.count * s * s * l), load);
  }

  void general(const std::string& what, const Tensor& a, const Tensor& b, const MatmulOptions& options,
               const Batch& batch, const Tensor& c) {
    k::detail::Product p = k::detail::checked_product(first(a), first(b), options, first(c));
    const double flops = 2.0 * double(batch.count * p.m * p.n * p.l);
    std::vector<Way> ways{{"matmul_batched", [=, this] {
                             k::matmul_batched(stream, first(a), first(b), options, batch, work.tensor, first(c));
                           }}};
    // Matrices of a batch are as aligned as the first.
    const auto lt = std::make_shared<k::detail::LtProduct>(k::detail::shape_of(p), work.tensor.bytes(), batch);
    for (const k::AlgorithmBytes& algorithm : lt->candidates(8))
      if (lt->refusal(algorithm).empty())
        ways.push_back({fmt::format("candidate {}", ways.size() - 1),
                        [=, this] { lt->run(stream, p, algorithm, work.tensor.data()); }});
    contest(stream, what, std::move(ways), flops, load / 2);
  }

  void group(const Group& g) {
    const std::int64_t n = g.count, s = g.side(), size = g.rows * g.columns;
    const bool wide = g.rows <= g.columns;
    const Transpose no = Transpose::no, yes = Transpose::yes;
    const bench::Owned u = bench::normal(stream, DType::bf16, {n, g.rows, g.columns}, 0.02f, 1),
                       x = bench::empty(DType::bf16, {n, g.rows, g.columns}),
                       gram = bench::empty(DType::bf16, {n, s, s}), c = bench::empty(DType::bf16, {n, s, s});
    copy(stream, u.tensor, x.tensor);
    symmetric(g.name() + ", gram", x.tensor, x.tensor, {.a = wide ? no : yes, .b = wide ? yes : no},
              {.count = n, .a = size, .b = size, .c = s * s, .z = 0}, gram.tensor);
    const Batch small{.count = n, .a = s * s, .b = s * s, .c = s * s, .z = s * s};
    symmetric(g.name() + ", small", gram.tensor, gram.tensor,
              {.b = yes, .alpha = 2.0f, .beta = -4.8f, .addend = first(gram.tensor)}, small, c.tensor);
    general(g.name() + ", accumulate", gram.tensor, gram.tensor, {.b = yes, .beta = 3.4f, .addend = first(gram.tensor)},
            small, c.tensor);
    const Tensor &left = wide ? gram.tensor : u.tensor, &right = wide ? u.tensor : gram.tensor;
    const std::int64_t of_left = wide ? s * s : size, of_right = wide ? size : s * s;
    const bool through_gram = g.length() >= 2 * s;
    MatmulOptions multiply{.a = wide ? yes : no};
    if (!through_gram) {
      multiply.beta = 3.4f;
      multiply.addend = first(u.tensor);
    }
    general(g.name() + ", multiply", left, right, multiply,
            {.count = n, .a = of_left, .b = of_right, .c = size, .z = size}, x.tensor);
    whole(g, u.tensor, x.tensor);
  }

  // On what it left, which is as good: its singular values are near one.
  void whole(const Group& g, const Tensor& u, const Tensor& x) {
    const bench::Owned memory =
        bench::empty(DType::u8, {k::orthogonalize_workspace(g.count, g.rows, g.columns, DType::bf16)});
    copy(stream, u, x);
    contest(stream, g.name() + ", orthogonalised",
            {{"orthogonalize", [=, this, at = memory.tensor] { k::orthogonalize(stream, x, 5, at); }}},
            double(g.count) * k::orthogonalize_flops(g.rows, g.columns, 5), load);
  }
};

int main_of(int argc, char** argv) {
  const Runtime runtime;
  Bench b;
  b.load = argc > 1 ? std::atof(argv[1]) : 0.08;
  fmt::print("{}\nsymmetric products: TFLOP/s of half of them; last column: the first way's time over this one's\n",
             device_info().name);
  // The 134 M model's groups, one like a 1 G model's, and two of the benchmark's model of 1 G.
  for (const Group& g : std::vector<Group>{
           {48, 768, 768}, {12, 768, 2048}, {12, 2048, 768}, {8, 2048, 2048}, {5, 1024, 4096}, {2, 4096, 4096}})
    b.group(g);
  return 0;
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) {
  return mylos::bench::run_trial("bench_kernels_muon_products", mylos::main_of, argc, argv);
}
