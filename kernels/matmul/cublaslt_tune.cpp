// Candidates on the device. Products are recorded into graphs, as a training step replays them, so that the host's time
// to launch does not count; trials.hpp says who runs when.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "kernels/matmul/cublaslt.hpp"
#include "kernels/matmul/tiles.hpp"
#include "kernels/matmul/trials.hpp"
#include "kernels/random/random.hpp"
#include "tensor/async.hpp"

namespace mylos::kernels::detail {
namespace {

using Clock = std::chrono::steady_clock;

// Operands go round in sets of at least so many bytes: an H200's L2 cache has 50 MiB, and a step's operands come from
// memory.
constexpr std::int64_t kRoundBytes = std::int64_t(256) << 20;
constexpr std::int64_t kMostSets = 32;
constexpr int kMostNodes = 64;
constexpr double kGraphSeconds = 2e-3;
constexpr double kSettleFirst = 1.0, kSettle = 0.2;  // under load before the clock is that of a long run
constexpr std::int64_t kCompared = std::int64_t(16) << 20;

std::int64_t padded(std::int64_t bytes) {
  return (bytes + 2 * Buffer::kAlignment - 1) / Buffer::kAlignment * Buffer::kAlignment;
}

// Where the operands of a shape lie: a, b, z behind one another in what is read, c in what is written.
struct Extent {
  std::int64_t a, b, c, z, sets;
  std::int64_t read() const { return a + b + z; }
};
Extent extent_of(const ProductShape& s) {
  const std::int64_t in = size_of(s.in), out = size_of(s.out);
  Extent e{.a = padded((s.transpose_a ? s.l : s.m) * s.stride[0] * in),
           .b = padded((s.transpose_b ? s.n : s.l) * s.stride[1] * in),
           .c = padded(s.m * s.stride[2] * out),
           .z = s.adds ? padded(s.m * s.stride[3] * out) : 0,
           .sets = 1};
  e.sets = std::clamp<std::int64_t>(kRoundBytes / (e.read() + e.c), 1, kMostSets);
  return e;
}

struct Pools {
  Buffer read, written, workspace;

  Pools(const Stream& stream, std::span<const ProductShape> shapes) {
    std::int64_t reads = 0, writes = 0;
    for (const ProductShape& s : shapes) {
      const Extent e = extent_of(s);
      reads = std::max(reads, e.sets * e.read());
      writes = std::max(writes, e.sets * e.c);
    }
    read = Buffer(reads, "operands of products to tune");
    written = Buffer(writes, "results of products to tune");
    workspace = Buffer(kCublasLtWorkspace, "workspace of products to tune");
    // Zeros would draw little power. Two bf16 side by side are a normal f32, too.
    random_normal(stream, 1, 0, 1.0f, Tensor(read.data(), DType::bf16, {reads / size_of(DType::bf16)}));
    fill_zero(stream, Tensor(written.data(), DType::u8, {writes}));
  }
};

// One of the library's algorithms, or tiles.
struct Candidate {
  AlgorithmBytes algorithm{};
  std::optional<TileOptions> tiles = {};
  bool operator==(const Candidate&) const = default;
};

// Of a product that has tiles for the whole card.
constexpr TileOptions kTileCandidates[] = {{8, 0}, {8, 2}, {16, 2}};
bool fills_the_card(const ProductShape& s) { return pairs_of_tiles(s.m, s.n) >= kPairsAtOnce; }

class Bench {
 public:
  Bench(const Stream& stream, const ProductShape& shape, const Pools& pools, const TuneOptions& options)
      : stream_(stream), shape_(shape), pools_(pools), extent_(extent_of(shape)), product_(shape, kCublasLtWorkspace) {
    const double guess = flops_of(shape) / 600e12 + double(extent_.read() + extent_.c) / 4e12 + 2e-6;
    nodes_ = int(std::clamp(kGraphSeconds / guess, 1.0, double(kMostNodes)));
    for (const AlgorithmBytes& a : product_.candidates(options.candidates)) add({a});
    for (const TunedProduct& known : options.known)
      if (known.shape == shape) add({known.tiles ? AlgorithmBytes{} : known.algorithm, known.tiles});
    if (fills_the_card(shape) && tiles_take(operands(0)))
      for (const TileOptions& tiles : kTileCandidates) add({{}, tiles});
    std::vector<Event> points(graphs_.size() + 1);
    points[0].record(stream_);
    for (std::size_t i = 0; i < graphs_.size(); ++i) {
      if (graphs_[i]) graphs_[i]->launch(stream_);
      points[i + 1].record(stream_);
    }
    points.back().wait();
    for (std::size_t i = 0; i < graphs_.size(); ++i)
      graph_s_.push_back(std::max(points[i + 1].seconds_since(points[i]), 1e-6));
  }

  std::size_t size() const { return candidates_.size(); }
  // The last so many are tiles: the library's come first, then what is known, tiles or not.
  std::size_t tiles() const {
    return std::size_t(
        std::count_if(candidates_.begin(), candidates_.end(), [](const auto& c) { return bool(c.tiles); }));
  }
  const Candidate& candidate(std::size_t i) const { return candidates_[i]; }

  void settle(double seconds) {
    const auto runs = std::find_if(graphs_.begin(), graphs_.end(), [](const auto& g) { return g.has_value(); });
    if (runs == graphs_.end()) return;
    const std::size_t i = std::size_t(runs - graphs_.begin());
    for (int n = launches(i, seconds); n > 0; --n) graphs_[i]->launch(stream_);
  }

  std::vector<double> run(std::span<const Burst> bursts) {
    struct Span {
      Event begin, end;
      int launches = 0;
    };
    std::vector<Span> spans(bursts.size());
    for (std::size_t i = 0; i < bursts.size(); ++i) {
      const std::size_t c = bursts[i].candidate;
      const int all = graphs_[c] ? launches(c, bursts[i].seconds) : 0, settling = all / 3;
      for (int n = 0; n < settling; ++n) graphs_[c]->launch(stream_);
      spans[i].begin.record(stream_);
      for (int n = settling; n < all; ++n) graphs_[c]->launch(stream_);
      spans[i].end.record(stream_);
      spans[i].launches = all - settling;
    }
    if (!spans.empty()) spans.back().end.wait();
    std::vector<double> seconds;
    for (std::size_t i = 0; i < bursts.size(); ++i) {
      if (spans[i].launches == 0) {
        seconds.push_back(INFINITY);
        continue;
      }
      const double graph = spans[i].end.seconds_since(spans[i].begin) / spans[i].launches;
      graph_s_[bursts[i].candidate] = std::max(graph, 1e-6);
      seconds.push_back(graph / nodes_);
    }
    return seconds;
  }

  // Two runs give the same bits.
  bool repeats(std::size_t candidate) {
    std::vector<std::uint8_t> first = result(candidate), second = result(candidate);
    return first == second;
  }

 private:
  void add(const Candidate& candidate) {
    if (std::find(candidates_.begin(), candidates_.end(), candidate) != candidates_.end()) return;
    candidates_.push_back(candidate);
    std::optional<Graph>& graph = graphs_.emplace_back();
    if (candidate.tiles ? !tiles_take(operands(0)) : !product_.refusal(candidate.algorithm).empty()) return;
    try {
      multiply(candidate, operands(0));
      graph.emplace(stream_, [&] {
        for (int i = 0; i < nodes_; ++i) multiply(candidate, operands(i % extent_.sets));
      });
    } catch (const Error&) {
      if (candidate.tiles) throw;  // ours run where tiles_take() says so
      return;  // what the library ranks but will not launch, or a graph cannot hold, is no candidate
    }
  }

  void multiply(const Candidate& candidate, const Product& p) const {
    if (candidate.tiles) return tiles_product(stream_, p, *candidate.tiles);
    product_.run(stream_, p, candidate.algorithm, pools_.workspace.data());
  }

  Product operands(std::int64_t set) const {
    const auto place = [&](std::int64_t at, const Buffer& pool, int operand) -> StoredMatrix {
      const std::int64_t alignment = shape_.alignment[std::size_t(operand)];
      const std::int64_t shift = alignment < Buffer::kAlignment ? alignment : 0;
      return {static_cast<std::byte*>(pool.data()) + at + shift, shape_.stride[std::size_t(operand)]};
    };
    const std::int64_t read = set * extent_.read();
    const StoredMatrix c = place(set * extent_.c, pools_.written, 2);
    return {.m = shape_.m,
            .n = shape_.n,
            .l = shape_.l,
            .transpose_a = shape_.transpose_a,
            .transpose_b = shape_.transpose_b,
            .alpha = 1.0f,
            .beta = shape_.adds ? 1.0f : 0.0f,
            .in = shape_.in,
            .out = shape_.out,
            .a = place(read, pools_.read, 0),
            .b = place(read + extent_.a, pools_.read, 1),
            .c = c,
            .z = shape_.adds ? place(read + extent_.a + extent_.b, pools_.read, 3) : c};
  }

  int launches(std::size_t candidate, double seconds) const {
    return int(std::clamp(std::round(seconds / graph_s_[candidate]), 1.0, 1e6));
  }

  // The first of the result's bytes.
  std::vector<std::uint8_t> result(std::size_t candidate) {
    std::vector<std::uint8_t> bytes(std::size_t(std::min(extent_.c, kCompared)));
    const Tensor part(pools_.written.data(), DType::u8, {std::int64_t(bytes.size())});
    fill_zero(stream_, part);
    multiply(candidates_[candidate], operands(0));
    download(stream_, part, bytes.data(), std::int64_t(bytes.size()));
    return bytes;
  }

  const Stream& stream_;
  const ProductShape shape_;
  const Pools& pools_;
  const Extent extent_;
  const LtProduct product_;
  int nodes_ = 1;  // products of a graph
  std::vector<Candidate> candidates_;
  std::vector<std::optional<Graph>> graphs_;  // none: it does not run
  std::vector<double> graph_s_;               // of one launch, as last seen
};

TunedProduct tune_one(const ProductShape& shape, Bench& bench, double budget_s) {
  const Ranking ranking = rank(
      bench.size(), budget_s, [&](std::span<const Burst> b) { return bench.run(b); }, bench.tiles());
  std::vector<std::size_t> order(bench.size());
  std::iota(order.begin(), order.end(), std::size_t(0));
  std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
    if ((x == ranking.best) != (y == ranking.best)) return x == ranking.best;
    return ranking.seconds[x] < ranking.seconds[y];
  });
  for (const std::size_t c : order) {
    if (!std::isfinite(ranking.seconds[c]) || !bench.repeats(c)) continue;
    const Candidate& best = bench.candidate(c);
    return {.shape = shape,
            .algorithm = best.algorithm,
            .tiles = best.tiles,
            .description = best.tiles ? describe(*best.tiles) : describe_algorithm(best.algorithm),
            .time_us = ranking.seconds[c] * 1e6,
            .first_time_us = std::isfinite(ranking.seconds[0]) ? ranking.seconds[0] * 1e6 : 0.0};
  }
  fail("tune: no algorithm of cuBLASLt for {} gives the same bits twice", kernels::describe(shape));
}

}  // namespace

std::vector<TunedProduct> cublaslt_tune(std::span<const ProductShape> shapes, const TuneOptions& options) {
  std::vector<TunedProduct> tuned;
  if (shapes.empty()) return tuned;
  const Stream stream;
  const Pools pools(stream, shapes);
  const auto begin = Clock::now();
  double budget = options.seconds;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const double spent = std::chrono::duration<double>(Clock::now() - begin).count();
    const double share = std::max(0.0, budget - spent) / double(shapes.size() - i);
    if (options.progress)
      options.progress(fmt::format("{}/{}  {}", i + 1, shapes.size(), kernels::describe(shapes[i])));
    Bench bench(stream, shapes[i], pools, options);
    bench.settle(i == 0 ? kSettleFirst : kSettle);
    if (i == 0) budget += kSettleFirst - kSettle;
    tuned.push_back(tune_one(shapes[i], bench, share - kSettle));
    if (options.done) options.done(tuned.back());
  }
  return tuned;
}

}  // namespace mylos::kernels::detail
