// What documents cost in attention, and why they are done as they are: dense causal attention beside one ragged call of
// cuDNN, ragged calls by classes of length, and our own tensor-core kernels; each held against the portable kernel.
// Needs a GPU and cuDNN.
//
//   bench_kernels_attention_documents [NAME...]     shapes whose name contains one of these; default all
//
// Times are of recorded work, in microseconds a call: forward, backward in any order, deterministic backward. Errors
// are norms of differences over norms.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "benchmarks/harness/timer.hpp"
#include "benchmarks/kernels/attention_operands.hpp"
#include "benchmarks/kernels/trial.hpp"
#include "kernels/attention/document_tables.hpp"
#include "kernels/attention/providers.hpp"
#include "kernels/attention/ragged.hpp"
#include "measure/statistics.hpp"

namespace mylos {
namespace {

using namespace kernels::attention;
using kernels::AttentionBucket;
using kernels::AttentionDocuments;
using kernels::AttentionOptions;
using kernels::AttentionShape;

struct Shape {
  const char* name;
  AttentionShape extents;
  bool check;  // small: for the values
};
constexpr Shape kShapes[] = {{"check_mha", {2, 256, 4, 4, 64}, true},      {"check_gqa", {2, 512, 8, 2, 128}, true},
                             {"check_odd", {3, 200, 4, 2, 80}, true},      {"134m_s512", {4, 512, 12, 12, 64}, false},
                             {"134m_s2048", {4, 2048, 12, 12, 64}, false}, {"134m_s8192", {1, 8192, 12, 12, 64}, false},
                             {"7b_s4096", {2, 4096, 32, 8, 128}, false}};
constexpr std::int64_t kMostWorkspace = std::int64_t(8) << 30;

struct Variant {
  const char* name;
  Provider provider;
  bool documents;
  std::size_t doublings;  // of length that a ragged call takes; 0: no such calls
};
constexpr Variant kVariants[] = {{"dense", Provider::cudnn, false, 0},
                                 {"one_call", Provider::cudnn, true, kernels::kLengthClasses},
                                 {"classes4", Provider::cudnn, true, 2},
                                 {"tiles", Provider::tiles, true, 0}};

enum class Pass { forward, any_order, deterministic };
constexpr Pass kPasses[] = {Pass::forward, Pass::any_order, Pass::deterministic};

enum class Mix { equal, log_normal, with_ones };
constexpr const char* kMixNames[] = {"equal", "lognormal", "with_ones"};

struct Documents {
  std::vector<std::int32_t> start;
  kernels::AttentionLengths lengths;
};

Documents documents_of(const AttentionShape& s, Mix mix) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> length(std::log(double(s.sequence) / 8) - 0.5, 1.0);
  Documents all;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t at = 0; at < s.sequence;) {
      std::int64_t n = s.sequence / 8;
      if (mix == Mix::log_normal) n = std::int64_t(length(random)) + 1;
      if (mix == Mix::with_ones) n = random() % 4 == 0 ? 1 : 1 + std::int64_t(random() % std::uint64_t(s.sequence / 3));
      n = std::min(n, s.sequence - at);
      all.start.insert(all.start.end(), std::size_t(n), std::int32_t(at));
      all.lengths.add(n);
      at += n;
    }
  return all;
}

double error_of(const std::vector<bf16>& got, const std::vector<bf16>& want) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = double(float(got[i])) - double(float(want[i]));
    difference += d * d;
    norm += double(float(want[i])) * double(float(want[i]));
  }
  return std::sqrt(difference / norm);
}

std::uint64_t bits_of(const std::vector<bf16>& values) {
  std::uint64_t h = 1469598103934665603u;
  for (const bf16& x : values) h = (h ^ x.bits) * 1099511628211u;
  return h;
}

// The operands of one shape, windows of a fused projection as in the model.
struct Bench : bench::AttentionOperands {
  bench::Owned starts, workspace;

  Bench(const AttentionShape& shape, const Documents& documents)
      : AttentionOperands(shape), starts(bench::empty(DType::i32, {s.batch, s.sequence})) {
    upload(stream, documents.start.data(), starts.tensor.bytes(), starts.tensor);
  }

  void run(Provider provider, const AttentionDocuments& documents, Pass pass) const {
    if (pass == Pass::forward)
      forward_with(provider, stream, q(qkv), k(qkv), v(qkv), documents, workspace.tensor, out.tensor, lse.tensor);
    else
      backward_with(provider, stream, q(qkv), k(qkv), v(qkv), documents, out.tensor, lse.tensor, dout.tensor,
                    workspace.tensor, q(dqkv), k(dqkv), v(dqkv), {.deterministic = pass == Pass::deterministic});
  }
  // What a pass leaves out must show.
  void clear() const {
    for (const bench::Owned* t : {&out, &dqkv}) {
      const std::vector<std::uint8_t> bytes(std::size_t(t->tensor.bytes()), 0xFF);
      upload(stream, bytes.data(), t->tensor.bytes(), t->tensor);
    }
  }
};

// A variant on a shape, with its tables.
class Runner {
 public:
  Runner(Bench& b, const Variant& variant, const Documents& documents) : b_(b), variant_(variant) {
    if (variant.documents) view_ = b.starts.tensor;
    if (variant.doublings == 0) return;
    view_.bucket = grouped(b.s, documents.lengths, variant.doublings);
    tables_ = bench::empty(DType::u8, {tables_of(b.s, view_.bucket).bytes});
    view_.tables = tables_.tensor;
    kernels::attention_prepare_documents(b.stream, b.s, view_);
  }

  const AttentionDocuments& documents() const { return view_; }
  int calls() const { return variant_.doublings == 0 ? 1 : tables_of(b_.s, view_.bucket).count; }
  std::int64_t workspace(Pass pass) const {
    const bool backward = pass != Pass::forward, deterministic = pass != Pass::any_order;
    if (variant_.doublings == 0 || !backward)
      return workspace_of(variant_.provider, b_.s, backward, {deterministic, variant_.documents});
    std::int64_t most = 0;
    for (const AttentionBucket::Call& c : view_.bucket.calls)
      if (c.room > 0) most = std::max(most, ragged_call(b_.s, c.longest, c.room, deterministic).workspace);
    return most;
  }
  void run(Pass pass) const { b_.run(variant_.provider, view_, pass); }

 private:
  Bench& b_;
  Variant variant_;
  AttentionDocuments view_;
  bench::Owned tables_;
};

// The median of stretches of recorded work, as the harness times it; `few` for shapes that are there for their values.
double microseconds(const Stream& stream, const std::function<void()>& work, bool few) {
  bench::Timer timer(stream, {work, work, work, work, work, work, work, work, work, work}, bench::Runs::recorded);
  std::vector<double> times;
  double sum = 0;
  while (times.size() < 5 || (!few && sum < 0.05 && times.size() < 200)) {
    const double seconds = timer.seconds(1);
    sum += seconds;
    times.push_back(seconds / double(timer.calls_per_unit()));
  }
  return measure::median(times) * 1e6;
}

struct Row {
  std::string shape, mix, variant;
  double time[3];
};

Row measure(Bench& b, const Shape& shape, Mix mix, const Variant& variant, const Documents& documents) {
  const Runner runner(b, variant, documents);
  b.workspace = bench::empty(DType::u8, {portable::workspace_bytes(b.s, true)});
  const AttentionDocuments starts = runner.documents() ? AttentionDocuments(b.starts.tensor) : AttentionDocuments();
  for (const Pass pass : {Pass::forward, Pass::deterministic}) b.run(Provider::portable, starts, pass);
  b.stream.fence();
  const std::vector<bf16> want_out = b.host(b.out), want = b.host(b.dqkv);
  b.clear();

  Row row{shape.name, kMixNames[int(mix)], variant.name, {}};
  std::string errors;
  double space[3] = {}, build_seconds = 0;
  bool fits = true;
  for (const Pass pass : kPasses) {
    const auto start = std::chrono::steady_clock::now();
    const std::int64_t bytes = runner.workspace(pass);
    space[int(pass)] = double(bytes) / 1048576;
    if (bytes > kMostWorkspace) {
      fits = false;
      continue;
    }
    b.workspace = bench::empty(DType::u8, {std::max<std::int64_t>(bytes, 1)});
    runner.run(pass);
    b.stream.fence();
    build_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    errors += pass == Pass::forward ? fmt::format("{:.4f}", error_of(b.host(b.out), want_out))
                                    : fmt::format(" {:.4f}", error_of(b.host(b.dqkv), want));
    if (pass == Pass::deterministic) {
      const std::uint64_t first = bits_of(b.host(b.dqkv));
      bool same = true;
      for (int again = 0; again < 3; ++again) {
        runner.run(pass);
        same = same && bits_of(b.host(b.dqkv)) == first;
      }
      errors += same ? " same" : " DIFFERS";
    }
    const auto work = [&] { runner.run(pass); };
    row.time[int(pass)] = microseconds(b.stream, work, shape.check);
  }
  fmt::print("{:10} {:5} {:9.1f} {:9.1f} {:9.1f} {:9.3f} {:9.1f} {:9.1f} {:9.2f}  {}{}\n", variant.name, runner.calls(),
             row.time[0], row.time[1], row.time[2], space[0], space[1], space[2], build_seconds, errors,
             fits ? "" : " (too much workspace)");
  return row;
}

void measure_all(const Shape& shape, Mix mix, std::vector<Row>& rows) {
  const Documents documents = documents_of(shape.extents, mix);
  fmt::print("\n{} {}: {} documents, the longest {} of {} x {} tokens\n", shape.name, kMixNames[int(mix)],
             documents.lengths.documents(), documents.lengths.longest(), shape.extents.batch, shape.extents.sequence);
  fmt::print("{:10} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "variant", "calls", "forward", "any order",
             "determin.", "MiB fwd", "MiB any", "MiB det.", "first s", "errors out, dq dk dv; deterministic; repeats");
  Bench b(shape.extents, documents);
  for (const Variant& variant : kVariants) {
    try {
      const Row row = measure(b, shape, mix, variant, documents);
      if (!shape.check) rows.push_back(row);
    } catch (const Error& e) {
      fmt::print("{:10} fails: {}\n", variant.name, e.what());
    }
    std::fflush(stdout);
  }
}

int main_of(int argc, char** argv) {
  const Runtime runtime;
  fmt::print("{}\n", device_info().name);
  std::vector<Row> rows;
  for (const Shape& shape : kShapes) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || std::string(shape.name).find(argv[i]) != std::string::npos;
    if (!wanted) continue;
    if (shape.check)
      measure_all(shape, Mix::with_ones, rows);
    else
      for (const Mix mix : {Mix::equal, Mix::log_normal}) measure_all(shape, mix, rows);
  }
  fmt::print("\n{:12} {:10} {:10} {:>22} {:>22}\n", "shape", "mix", "variant", "forward + any order",
             "forward + determin.");
  double dense[2] = {};
  for (const Row& r : rows) {
    const auto sum = [&](double backward) { return backward > 0 ? r.time[0] + backward : 0; };
    const double sums[2] = {sum(r.time[1]), sum(r.time[2])};
    if (r.variant == "dense") dense[0] = sums[0], dense[1] = sums[1];
    const auto ratio = [&](int i) { return sums[i] > 0 ? dense[i] / sums[i] : 0; };
    fmt::print("{:12} {:10} {:10} {:10.1f} us {:6.2f} x {:11.1f} us {:6.2f} x\n", r.shape, r.mix, r.variant, sums[0],
               ratio(0), sums[1], ratio(1));
  }
  return 0;
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) {
  return mylos::bench::run_trial("bench_kernels_attention_documents", mylos::main_of, argc, argv);
}
