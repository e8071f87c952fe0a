// A run that is profiled: every kernel of its steps once, under the region that queued it, and all of it adds up. On a GPU the same with and
// without recorded graphs.
#include "train/profile_steps.hpp"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "kernels/elementwise/elementwise.hpp"
#include "measure/inspect.hpp"
#include "measure/kernel_trace_bundle.hpp"
#include "synthetic.hpp"
#include "tensor/async.hpp"
#include "tensor/region.hpp"
#include "train/ledger.hpp"
#include "train/run.hpp"

namespace mylos::train {
namespace {

using measure::KernelProfile;
using Calls = std::map<std::pair<std::string, std::string>, double>;  // by (kernel, region), of one step

KernelProfile read(const std::string& path) {
  for (const measure::Finding& f : measure::validate(path)) ADD_FAILURE() << path << ' ' << f.where << ": " << f.what;
  return measure::read_kernels(checkpoint::Reader(path));
}

KernelProfile profiled(const Config& c, const ProfileRequest& request, const std::string& bundle) {
  std::ostringstream out;
  const RunResult r = run(c, {.out = &out, .terminal = false, .command_line = {"mylos", "train"}, .profile = request});
  EXPECT_EQ(r.status, RunStatus::finished);
  EXPECT_NE(out.str().find("exposed ms"), std::string::npos) << out.str();
  return read(bundle);
}

Calls calls_of(const KernelProfile& p) {
  Calls calls;
  for (const measure::KernelRow& r : p.table.rows)
    calls[{p.records.names[r.name], p.records.regions[r.region].label()}] += double(r.calls) / double(p.table.steps);
  return calls;
}

void expect_whole(const KernelProfile& p, const Config& c) {
  double busy_s = 0;
  for (const measure::CategoryRow& row : p.table.categories) busy_s += row.exposed_s;
  EXPECT_NEAR(busy_s + p.table.idle_s, p.table.window_s, 1e-9);
  std::map<std::string, double> by_region;
  for (const measure::KernelRow& r : p.table.rows) by_region[p.records.regions[r.region].label()] += double(r.calls);
  for (const model::OpCost& op : step_ledger(c)) {
    const std::string label = "mylos::" + std::string(name_of(op.phase)) + "::" + op.op;
    EXPECT_GE(by_region[label], double(op.calls * p.table.steps)) << label << " has a kernel for each of its calls";
  }
  for (const char* category : {"products", "attention", "optimizer", "memory-bound"}) {
    bool some = false;
    for (std::size_t i = 0; i < measure::kKernelCategories; ++i)
      some = some || (category == std::string(name_of(measure::KernelCategory(i))) && p.table.categories[i].calls > 0);
    EXPECT_TRUE(some) << category;
  }
}

// How far the profile's step is from the run's own, as a part of it.
double off_from_run(const checkpoint::Reader& profile) {
  return std::abs(profile.real("/summary/step_time") / profile.real("/summary/step_time_run") - 1);
}

TEST(ProfileSteps, AddUpToTheRunsOwnTime) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder, {"train.accumulation=2", "eval.interval=6", "train.steps=12"});
  const KernelProfile p =
      profiled(c, {.after = 4, .steps = 5, .timeline = folder.file("t.json")}, folder.file("run.profile.h5"));
  EXPECT_EQ(p.table.steps, 5);
  EXPECT_EQ(p.windows.front().mark, 5);
  EXPECT_EQ(p.windows.back().mark, 9);
  expect_whole(p, c);
  const checkpoint::Reader file(folder.file("run.profile.h5"));
  if (!device_info().is_gpu) {
    // The run times a step to the end of its last event, which comes just after its last kernel. Steps take milliseconds, and other
    // programs may take the processor between the two: one quiet run of three is enough.
    double off = off_from_run(file);
    for (int again = 0; off > 0.3 && again < 2; ++again) {
      const test::Folder other;
      const Config same = test::tiny_config(other, {"train.accumulation=2", "eval.interval=6", "train.steps=12"});
      profiled(same, {.after = 4, .steps = 5}, other.file("run.profile.h5"));
      off = off_from_run(checkpoint::Reader(other.file("run.profile.h5")));
    }
    EXPECT_LE(off, 0.3);
  }
  EXPECT_GT(file.real("/summary/step_time_before"), 0);
  std::ifstream in(folder.file("t.json"));
  EXPECT_GT(nlohmann::json::parse(in)["traceEvents"].size(), p.records.records.size());
  EXPECT_EQ(observe_regions(nullptr), nullptr) << "nobody listens after the profile";
}

TEST(ProfileSteps, ChangesNothingInTheRun) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder, {"train.steps=8", "output.overwrite=true"});
  const RunResult plain = run(c, {}), watched = run(c, {.command_line = {}, .profile = ProfileRequest{.after = 3}});
  EXPECT_EQ(watched.status, RunStatus::finished);
  EXPECT_EQ(plain.loss, watched.loss);
  EXPECT_EQ(plain.validation_loss, watched.validation_loss);
}

TEST(ProfileSteps, TakesWhatAShortRunHas) {
  const test::Folder folder;
  const Config c = test::tiny_config(folder, {"train.steps=3", "output.overwrite=true"});
  const KernelProfile p = profiled(c, {}, folder.file("run.profile.h5"));
  EXPECT_EQ(p.table.steps, 2);
  EXPECT_EQ(p.windows.back().mark, 3);
  const auto refused = [&](const ProfileRequest& request, const char* step) {
    const Config shorter = test::tiny_config(folder, {step, "output.overwrite=true"});
    return test::error_of([&] { run(shorter, {.command_line = {}, .profile = request}); });
  };
  EXPECT_CONTAINS(refused({}, "train.steps=1"), "set train.steps=2 or more");
  EXPECT_CONTAINS(refused({.after = 2, .steps = 2}, "train.steps=3"), "2 steps after step 2");
  EXPECT_CONTAINS(refused({.bundle = folder.file("run.h5")}, "train.steps=3"), "twice");
}

TEST(ProfileSteps, GraphsHaveTheKernelsOfTheirRegions) {
  if (!Graph::available()) GTEST_SKIP() << "work is recorded on a GPU only";
  const test::Folder folder;
  std::vector<Calls> calls;
  for (const char* graphs : {"true", "false"}) {
    const Config c = test::tiny_config(folder, {std::string("train.graphs=") + graphs, "train.storage=bf16",
                                                "train.accumulation=2", "train.steps=16", "output.overwrite=true"});
    const std::string bundle = folder.file(std::string("graphs_") + graphs + ".h5");
    const KernelProfile p = profiled(c, {.bundle = bundle}, bundle);
    expect_whole(p, c);
    double time_s = 0;
    for (const measure::CategoryRow& row : p.table.categories) time_s += row.time_s;
    EXPECT_LT(p.table.outside_regions_s, 0.1 * time_s) << "kernels without a region, graphs " << graphs;
    calls.push_back(calls_of(p));
  }
  // Copies may take another form inside of a graph; kernels may not.
  for (const auto& [key, count] : calls[1]) {
    if (key.first.starts_with("copy") || key.first == "set") continue;
    EXPECT_EQ(calls[0][key], count) << key.first << " of " << key.second;
  }
}

// Launches whose number is known, inside and outside of a graph.
TEST(KernelTrace, CountsEachLaunchOnce) {
  constexpr std::int64_t kElements = 4096;
  constexpr int kOutside = 7, kInside = 5, kReplays = 3;
  const Stream stream;
  const test::DeviceTensor a = test::empty_device({kElements}, DType::f32),
                           b = test::empty_device({kElements}, DType::bf16);
  const auto work = [&](int count, const char* op) {
    const Region region(stream, "forward", op);
    for (int i = 0; i < count; ++i) kernels::convert(stream, a.tensor, b.tensor);
  };
  measure::KernelTrace trace;
  work(1, "warm_up");
  std::optional<Graph> graph;
  if (Graph::available()) graph.emplace(stream, [&] { work(kInside, "inside"); });
  stream.fence();
  trace.start();
  trace.mark(3);
  work(kOutside, "outside");
  trace.mark(4);
  for (int i = 0; i < kReplays; ++i) {
    if (graph)
      graph->launch(stream);
    else
      work(kInside, "inside");
  }
  stream.fence();
  const measure::KernelRecords r = trace.stop();
  std::map<std::pair<std::string, int>, int> launches;  // by op and mark
  for (const measure::KernelRecord& k : r.records) {
    EXPECT_LE(k.begin_ns, k.end_ns);
    if (k.kind == measure::KernelKind::kernel) ++launches[{r.regions[k.region].op, k.mark}];
    EXPECT_EQ(k.in_graph, graph.has_value() && k.mark == 4);
  }
  const std::map<std::pair<std::string, int>, int> expected{{{"outside", 3}, kOutside},
                                                            {{"inside", 4}, kInside * kReplays}};
  EXPECT_EQ(launches, expected) << "by " << r.source;
}

TEST(KernelTrace, IsAlone) {
  measure::KernelTrace first;
  EXPECT_CONTAINS(test::error_of([] { measure::KernelTrace second; }), "observed already");
}

}  // namespace
}  // namespace mylos::train
