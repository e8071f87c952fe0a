// Ways to run attention with documents by cuDNN, each held against the portable kernel and timed beside dense causal
// attention: one ragged call, ragged calls by classes of length, an additive mask; and our own tensor-core kernel. Needs a GPU
// and cuDNN.
//
//   bench_kernels_attention_documents [NAME...]     shapes whose name contains one of these; default all
//
// Times are of recorded work, in microseconds a call: forward, backward in any order, deterministic backward. Errors are
// norms of differences over norms, against the portable kernel.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "benchmarks/kernels/bench_support.hpp"
#include "kernels/attention/cudnn_plan.hpp"
#include "kernels/attention/providers.hpp"
#include "tensor/async.hpp"

namespace mylos {
namespace {

using namespace kernels::attention;
using cudnn::Mask;
using cudnn::Plan;
using cudnn::PlanKey;
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

struct Document {
  std::int64_t start, length;  // start in the tokens of the whole batch
};
using Documents = std::vector<Document>;

enum class Mix { equal, log_normal, ragged };
constexpr const char* kMixNames[] = {"equal", "lognormal", "with_ones"};

Documents documents_of(const AttentionShape& s, Mix mix) {
  std::mt19937 random(7);
  std::lognormal_distribution<double> length(std::log(double(s.sequence) / 8) - 0.5, 1.0);
  Documents all;
  for (std::int64_t b = 0; b < s.batch; ++b)
    for (std::int64_t at = 0; at < s.sequence;) {
      std::int64_t n = s.sequence / 8;
      if (mix == Mix::log_normal) n = std::int64_t(length(random)) + 1;
      if (mix == Mix::ragged) n = random() % 4 == 0 ? 1 : 1 + std::int64_t(random() % std::uint64_t(s.sequence / 3));
      n = std::min(n, s.sequence - at);
      all.push_back({b * s.sequence + at, n});
      at += n;
    }
  return all;
}

std::int64_t power_of_two(std::int64_t least) {
  std::int64_t p = 1;
  while (p < least) p *= 2;
  return p;
}
std::int64_t longest_of(const Documents& d) {
  return std::max_element(d.begin(), d.end(), [](auto& a, auto& b) { return a.length < b.length; })->length;
}

// A call of a plan: some documents, room for `count` of them, of at most `longest` tokens.
struct Group {
  Documents documents;
  std::int64_t count, longest;
};

// Classes of length: the longest of each is `factor` times that of the one before; the shortest is about 64.
std::vector<Group> classes(const AttentionShape& s, const Documents& all, std::int64_t factor, bool fixed) {
  std::vector<Group> groups;
  std::int64_t longest = power_of_two(s.sequence);
  for (bool last = false; !last; longest /= factor) {
    last = longest / factor < 64;
    const std::int64_t above = last ? 0 : longest / factor;
    Group g{{}, 0, std::min(longest, (s.sequence + 63) / 64 * 64)};
    for (const Document& d : all)
      if (d.length > above && d.length <= longest) g.documents.push_back(d);
    const auto count = std::int64_t(g.documents.size());
    // Fixed: as many as there can be, so that a plan fits every batch.
    g.count = fixed && !last ? s.batch * (s.sequence / (above + 1)) : power_of_two(std::max<std::int64_t>(count, 1));
    if (count > 0 || fixed) groups.push_back(g);
  }
  return groups;
}

constexpr const char* kTilesName = "tiles";  // without cuDNN
struct Variant {
  const char* name;
  Mask mask;
  bool packed;  // fp32 sums of dq laid out as dq; of cuDNN
  std::function<std::vector<Group>(const AttentionShape&, const Documents&)> groups;
};
std::vector<Group> one(const Documents& d, std::int64_t count, std::int64_t longest) { return {{d, count, longest}}; }
std::int64_t count_of(const Documents& d) { return std::int64_t(d.size()); }

const Variant kVariants[] = {
    {"dense", Mask::causal, false, {}},
    {kTilesName, Mask::causal, false, {}},
    {"bias", Mask::bias, false, {}},
    {"ragged_s", Mask::documents, true, [](auto& s, auto& d) { return one(d, count_of(d), s.sequence); }},
    {"ragged_exact", Mask::documents, true,
     [](auto&, auto& d) { return one(d, count_of(d), (longest_of(d) + 63) / 64 * 64); }},
    {"ragged_pow2", Mask::documents, true,
     [](auto&, auto& d) {
       return one(d, power_of_two(count_of(d)), std::max<std::int64_t>(64, power_of_two(longest_of(d))));
     }},
    {"ragged_padded", Mask::documents, false,
     [](auto&, auto& d) {
       return one(d, power_of_two(count_of(d)), std::max<std::int64_t>(64, power_of_two(longest_of(d))));
     }},
    {"ragged_4xcount", Mask::documents, true,
     [](auto&, auto& d) {
       return one(d, 4 * power_of_two(count_of(d)), std::max<std::int64_t>(64, power_of_two(longest_of(d))));
     }},
    {"classes2", Mask::documents, true, [](auto& s, auto& d) { return classes(s, d, 2, false); }},
    {"classes2_fixed", Mask::documents, true, [](auto& s, auto& d) { return classes(s, d, 2, true); }},
    {"classes2_padded", Mask::documents, false, [](auto& s, auto& d) { return classes(s, d, 2, false); }},
    {"classes4", Mask::documents, true, [](auto& s, auto& d) { return classes(s, d, 4, false); }},
    {"classes4_fixed", Mask::documents, true, [](auto& s, auto& d) { return classes(s, d, 4, true); }},
};

double build_seconds = 0;
int plans_built = 0;
std::map<PlanKey, std::unique_ptr<Plan>> plans;

const Plan& plan_of(const PlanKey& key) {
  std::unique_ptr<Plan>& plan = plans[key];
  if (!plan) {
    const auto start = std::chrono::steady_clock::now();
    plan = std::make_unique<Plan>(key);
    build_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    ++plans_built;
  }
  return *plan;
}

enum class Pass { forward, any_order, deterministic };

// The operands of one shape, windows of a fused projection as in the model.
struct Bench {
  Stream stream;
  AttentionShape s;
  bench::Owned qkv, dqkv, out, dout, lse, bias, starts, workspace;

  Bench(const AttentionShape& shape, const Documents& documents)
      : s(shape),
        qkv(bench::normal(stream, DType::bf16, {s.batch, s.sequence, s.heads + 2 * s.kv_heads, s.head_size}, 1, 1)),
        dqkv(bench::empty(DType::bf16, {s.batch, s.sequence, s.heads + 2 * s.kv_heads, s.head_size})),
        out(bench::empty(DType::bf16, {s.batch, s.sequence, s.heads, s.head_size})),
        dout(bench::normal(stream, DType::bf16, {s.batch, s.sequence, s.heads, s.head_size}, 1, 2)),
        lse(bench::empty(DType::f32, {s.batch, s.heads, s.sequence})),
        bias(bench::empty(DType::bf16, {s.batch, 1, s.sequence, s.sequence})),
        starts(bench::empty(DType::i32, {s.batch, s.sequence})) {
    std::vector<std::int32_t> start(std::size_t(s.batch * s.sequence));
    for (const Document& d : documents)
      for (std::int64_t i = 0; i < d.length; ++i) start[std::size_t(d.start + i)] = std::int32_t(d.start % s.sequence);
    upload(stream, start.data(), starts.tensor.bytes(), starts.tensor);
    std::vector<bf16> mask(std::size_t(bias.tensor.size()));
    for (std::int64_t t = 0; t < s.batch * s.sequence; ++t)
      for (std::int64_t j = 0; j < start[std::size_t(t)]; ++j) mask[std::size_t(t * s.sequence + j)] = bf16(-1e4f);
    upload(stream, mask.data(), bias.tensor.bytes(), bias.tensor);
  }

  Tensor q(const bench::Owned& t) const { return t.tensor.slice(2, 0, s.heads); }
  Tensor k(const bench::Owned& t) const { return t.tensor.slice(2, s.heads, s.heads + s.kv_heads); }
  Tensor v(const bench::Owned& t) const { return t.tensor.slice(2, s.heads + s.kv_heads, s.heads + 2 * s.kv_heads); }

  void portable() {
    const bench::Owned space = bench::empty(DType::u8, {portable::workspace_bytes(s, true)});
    forward_with(Provider::portable, stream, q(qkv), k(qkv), v(qkv), starts.tensor, space.tensor, out.tensor,
                 lse.tensor);
    backward_with(Provider::portable, stream, q(qkv), k(qkv), v(qkv), starts.tensor, out.tensor, lse.tensor,
                  dout.tensor, space.tensor, q(dqkv), k(dqkv), v(dqkv));
    stream.fence();
  }
  std::vector<bf16> host(const bench::Owned& t) const {
    std::vector<bf16> values(std::size_t(t.tensor.size()));
    download(stream, t.tensor, values.data(), t.tensor.bytes());
    return values;
  }
};

double error_of(const std::vector<bf16>& got, const std::vector<bf16>& want) {
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double d = double(float(got[i])) - double(float(want[i]));
    difference += d * d;
    norm += double(float(want[i])) * double(float(want[i]));
  }
  return std::sqrt(difference / norm);
}

// A variant on a shape: plans and tables of each call.
class Runner {
 public:
  Runner(Bench& b, const Variant& variant, const Documents& documents) : b_(b), tiles_(variant.name == kTilesName) {
    if (tiles_) {
      calls_.resize(1);
      return;
    }
    std::vector<Group> groups(1);
    if (variant.groups) groups = variant.groups(b.s, documents);
    for (const Group& g : groups) {
      Call call;
      for (const Pass pass : {Pass::forward, Pass::any_order, Pass::deterministic})
        call.keys[std::size_t(pass)] = key(variant, g, pass);
      if (variant.mask == Mask::documents) fill(g, call);
      calls_.push_back(std::move(call));
    }
  }
  std::size_t calls() const { return calls_.size(); }

  std::int64_t workspace(Pass pass) const {
    if (tiles_) return workspace_of(Provider::tiles, b_.s, pass != Pass::forward);
    std::int64_t most = 1;
    for (const Call& c : calls_) most = std::max(most, plan_of(c.keys[std::size_t(pass)]).workspace());
    return most;
  }
  void run_tiles(Pass pass) {
    const Tensor &starts = b_.starts.tensor, &space = b_.workspace.tensor, &out = b_.out.tensor, &lse = b_.lse.tensor;
    if (pass == Pass::forward)
      forward_with(Provider::tiles, b_.stream, b_.q(b_.qkv), b_.k(b_.qkv), b_.v(b_.qkv), starts, space, out, lse);
    else
      backward_with(Provider::tiles, b_.stream, b_.q(b_.qkv), b_.k(b_.qkv), b_.v(b_.qkv), starts, out, lse,
                    b_.dout.tensor, space, b_.q(b_.dqkv), b_.k(b_.dqkv), b_.v(b_.dqkv));
  }
  void run(Pass pass) {
    if (tiles_) return run_tiles(pass);
    for (Call& c : calls_) {
      const Plan& plan = plan_of(c.keys[std::size_t(pass)]);
      cudnn::Operands o{b_.q(b_.qkv).data(),  b_.k(b_.qkv).data(),   b_.v(b_.qkv).data(),  b_.out.tensor.data(),
                        b_.lse.tensor.data(), b_.dout.tensor.data(), b_.q(b_.dqkv).data(), b_.k(b_.dqkv).data(),
                        b_.v(b_.dqkv).data(), b_.bias.tensor.data(), c.lengths.data(),     {}};
      for (std::size_t i = 0; i < plan.rows().size(); ++i) o.offsets[i] = c.offsets.at(plan.rows()[i]).data();
      plan.run(b_.stream, o, b_.workspace.tensor.data());
    }
  }

 private:
  struct Call {
    std::array<PlanKey, 3> keys;
    Buffer lengths;
    std::map<std::int64_t, Buffer> offsets;  // by elements a token
  };

  PlanKey key(const Variant& variant, const Group& g, Pass pass) const {
    const AttentionShape& s = b_.s;
    const std::int64_t row = (s.heads + 2 * s.kv_heads) * s.head_size, out = s.heads * s.head_size;
    const cudnn::Strides fused{s.sequence * row, row, s.head_size}, dense{s.sequence * out, out, s.head_size};
    PlanKey k{.shape = s,
              .mask = variant.mask,
              .backward = pass != Pass::forward,
              .deterministic = pass != Pass::any_order,
              .tokens = 0,
              .strides = {fused, fused, fused, dense}};
    if (k.backward) k.strides = {fused, fused, fused, dense, dense, fused, fused, fused};
    if (variant.mask == Mask::documents) {
      k.shape.batch = g.count;
      k.shape.sequence = g.longest;
      if (variant.packed && k.backward) k.tokens = s.batch * s.sequence;
    }
    return k;
  }

  void fill(const Group& g, Call& call) const {
    const auto put = [&](const auto& values, DType dtype) {
      Buffer buffer(std::int64_t(values.size() * sizeof(values[0])), "tables");
      upload(b_.stream, values.data(), buffer.bytes(), Tensor(buffer.data(), dtype, {std::int64_t(values.size())}));
      return buffer;
    };
    std::vector<std::int32_t> lengths(std::size_t(g.count), 0);
    for (std::size_t i = 0; i < g.documents.size(); ++i) lengths[i] = std::int32_t(g.documents[i].length);
    call.lengths = put(lengths, DType::i32);
    for (const Pass pass : {Pass::forward, Pass::any_order})
      for (const std::int64_t row : plan_of(call.keys[std::size_t(pass)]).rows()) {
        const std::int64_t end = g.documents.empty() ? 0 : g.documents.back().start + g.documents.back().length;
        std::vector<std::int64_t> offsets(std::size_t(g.count + 1), end * row);
        for (std::size_t i = 0; i < g.documents.size(); ++i) offsets[i] = g.documents[i].start * row;
        if (!call.offsets.contains(row)) call.offsets.emplace(row, put(offsets, DType::i64));
      }
  }

  Bench& b_;
  bool tiles_;
  std::vector<Call> calls_;
};

double microseconds(Bench& b, const std::function<void()>& work, bool short_one) {
  constexpr int kCalls = 10;
  work();
  b.stream.fence();
  const Graph graph(b.stream, [&] {
    for (int i = 0; i < kCalls; ++i) work();
  });
  graph.launch(b.stream);
  std::vector<double> times;
  double sum = 0;
  while (times.size() < 5 || (!short_one && sum < 0.05 && times.size() < 200)) {
    Event before, after;
    before.record(b.stream);
    graph.launch(b.stream);
    after.record(b.stream);
    after.wait();
    times.push_back(after.seconds_since(before));
    sum += times.back();
  }
  std::nth_element(times.begin(), times.begin() + std::ptrdiff_t(times.size() / 2), times.end());
  return times[times.size() / 2] * 1e6 / kCalls;
}

void clear(Bench& b) {
  for (const bench::Owned* t : {&b.out, &b.dqkv}) {
    const std::vector<std::uint8_t> bytes(std::size_t(t->tensor.bytes()), 0xFF);
    upload(b.stream, bytes.data(), t->tensor.bytes(), t->tensor);
  }
}

struct Row {
  std::string shape, mix, variant;
  double time[3];
};

void measure(const Shape& shape, Mix mix, std::vector<Row>& rows) {
  const Documents documents = documents_of(shape.extents, mix);
  fmt::print("\n{} {}: {} documents, the longest {} of {} x {} tokens\n", shape.name, kMixNames[int(mix)],
             documents.size(), longest_of(documents), shape.extents.batch, shape.extents.sequence);
  fmt::print("{:16} {:>5} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}  {}\n", "variant", "calls", "forward", "any order",
             "determin.", "MiB fwd", "MiB any", "MiB det.", "build s", "errors out, dq dk dv; deterministic; repeats");
  Bench b(shape.extents, documents);
  b.portable();
  const std::vector<bf16> want_out = b.host(b.out), want = b.host(b.dqkv);
  for (const Variant& variant : kVariants) {
    const double built = build_seconds;
    try {
      Runner runner(b, variant, documents);
      std::string errors;
      Row row{shape.name, kMixNames[int(mix)], variant.name, {}};
      std::int64_t space[3] = {};
      bool fits = true;
      for (const Pass pass : {Pass::forward, Pass::any_order, Pass::deterministic}) {
        std::int64_t& bytes = space[int(pass)];
        bytes = runner.workspace(pass);
        if (bytes > kMostWorkspace) {
          fits = false;
          continue;
        }
        b.workspace = bench::empty(DType::u8, {bytes});
        if (pass == Pass::forward) clear(b);
        runner.run(pass);
        b.stream.fence();
        if (pass == Pass::forward)
          errors += fmt::format("{:.4f}", error_of(b.host(b.out), want_out));
        else
          errors += fmt::format(" {:.4f}", error_of(b.host(b.dqkv), want));
        if (pass == Pass::deterministic) {
          const auto bits = [](const std::vector<bf16>& v) {
            std::uint64_t h = 1469598103934665603u;
            for (const bf16& x : v) h = (h ^ x.bits) * 1099511628211u;
            return h;
          };
          const std::uint64_t first = bits(b.host(b.dqkv));
          bool same = true;
          for (int again = 0; again < 3; ++again) {
            runner.run(pass);
            same = same && bits(b.host(b.dqkv)) == first;
          }
          errors += same ? " same" : " DIFFERS";
        }
        row.time[int(pass)] = microseconds(
            b, [&] { runner.run(pass); }, shape.check);
      }
      fmt::print("{:16} {:5} {:9.1f} {:9.1f} {:9.1f} {:9.3f} {:9.1f} {:9.1f} {:9.2f}  {}{}\n", variant.name,
                 runner.calls(), row.time[0], row.time[1], row.time[2], double(space[0]) / 1048576,
                 double(space[1]) / 1048576, double(space[2]) / 1048576, build_seconds - built, errors,
                 fits ? "" : " (too much workspace)");
      if (!shape.check) rows.push_back(row);
    } catch (const Error& e) {
      fmt::print("{:16} fails: {}\n", variant.name, e.what());
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
      measure(shape, Mix::ragged, rows);
    else
      for (const Mix mix : {Mix::equal, Mix::log_normal}) measure(shape, mix, rows);
  }
  fmt::print("\n{} plans built in {:.1f} s\n", plans_built, build_seconds);
  fmt::print("\n{:12} {:10} {:16} {:>22} {:>22}\n", "shape", "mix", "variant", "forward + any order",
             "forward + determin.");
  double dense[2] = {};
  for (const Row& r : rows) {
    const double sums[2] = {r.time[0] + r.time[1], r.time[2] > 0 ? r.time[0] + r.time[2] : 0};
    if (r.variant == "dense") dense[0] = sums[0], dense[1] = sums[1];
    fmt::print("{:12} {:10} {:16} {:10.1f} us {:6.2f} x {:11.1f} us {:6.2f} x\n", r.shape, r.mix, r.variant, sums[0],
               dense[0] / sums[0], sums[1], sums[1] > 0 ? dense[1] / sums[1] : 0);
  }
  plans.clear();
  return 0;
}

}  // namespace
}  // namespace mylos

int main(int argc, char** argv) { return mylos::main_of(argc, argv); }
