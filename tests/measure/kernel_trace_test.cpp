// Kernel records that the test makes up: whose an instant is, what a kernel counts as, and timelines that parse.
#include "measure/kernel_trace.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "measure/inspect.hpp"
#include "measure/kernel_trace_bundle.hpp"
#include "measure/kernel_trace_json.hpp"
#include "support/host_tensor.hpp"
#include "tensor/philox.hpp"

namespace mylos::measure {
namespace {

using Category = KernelCategory;

// Regions: 1 a product, 2 attention, 3 memory-bound, 4 the optimizer.
struct Records : KernelRecords {
  Records() {
    source = "test";
    regions = {
        {}, {"forward", "matmul/qkv"}, {"backward", "attention"}, {"forward", "swiglu"}, {"optimizer", "optimizer"}};
  }
  void add(std::int64_t begin_ns, std::int64_t end_ns, const std::string& name, std::uint32_t region, std::int32_t mark,
           KernelKind kind = KernelKind::kernel, std::uint32_t stream = 7) {
    auto place = std::find(names.begin(), names.end(), name);
    if (place == names.end()) place = names.insert(names.end(), name);
    records.push_back({.begin_ns = begin_ns,
                       .end_ns = end_ns,
                       .name = std::uint32_t(place - names.begin()),
                       .region = region,
                       .mark = mark,
                       .stream = stream,
                       .kind = kind});
  }
};

double exposed_ns(const KernelTable& t, Category c) { return 1e9 * t.categories[std::size_t(c)].exposed_s; }
double time_ns(const KernelTable& t, Category c) { return 1e9 * t.categories[std::size_t(c)].time_s; }

TEST(KernelTable, EachInstantBelongsToOneRecord) {
  Records r;
  r.add(0, 100, "before", 3, 1);
  r.add(200, 500, "gemm", 1, 2);                                            // a product
  r.add(400, 700, "ncclDevKernel_AllReduce", 0, 2, KernelKind::kernel, 9);  // 200 of 300 exposed
  r.add(600, 650, "copy", 0, 2, KernelKind::copy, 11);                      // hidden behind communication
  r.add(800, 900, "mylos::softmax", 1, 2);
  r.add(850, 1100, "gemm", 1, 2, KernelKind::kernel, 9);  // takes over at 850
  const std::vector<StepWindow> windows = step_windows(r, 2, 1);
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].begin_ns, 100);
  EXPECT_EQ(windows[0].end_ns, 1100);
  const KernelTable t = kernel_table(r, windows);
  EXPECT_NEAR(exposed_ns(t, Category::products), 550, 1e-6);
  EXPECT_NEAR(time_ns(t, Category::products), 550, 1e-6);
  EXPECT_NEAR(exposed_ns(t, Category::communication), 200, 1e-6);
  EXPECT_NEAR(time_ns(t, Category::communication), 300, 1e-6);
  EXPECT_NEAR(exposed_ns(t, Category::copy_set), 0, 1e-6);
  EXPECT_NEAR(time_ns(t, Category::copy_set), 50, 1e-6);
  EXPECT_NEAR(exposed_ns(t, Category::memory_bound), 50, 1e-6);
  EXPECT_NEAR(1e9 * t.idle_s, 100 + 100, 1e-6);
  EXPECT_NEAR(1e9 * t.window_s, 1000, 1e-6);
  EXPECT_EQ(t.categories[std::size_t(Category::products)].calls, 2);
  EXPECT_EQ(t.row_of[0], KernelTable::kNoRow) << "the step before is not in the table";
  EXPECT_NEAR(1e9 * t.outside_regions_s, 300, 1e-6) << "copies have no region of their own";
}

TEST(KernelTable, AddsUpForRecordsOfAnyKind) {
  std::uint32_t drawn = 0;
  const std::uint64_t seed = test::test_seed();
  const auto below = [&](std::uint32_t n) {
    const std::uint32_t i = drawn++;
    return std::int64_t(philox(seed, Purpose::sampling, 0, i / 4 * 4).v[i % 4] % n);
  };
  for (int round = 0; round < 50; ++round) {
    Records r;
    r.add(0, 5, "before", 3, 0);
    for (std::int32_t mark = 1; mark <= 3; ++mark)
      for (int i = 0; i < 40; ++i) {
        const std::int64_t begin = 400 * mark + below(500);
        r.add(begin, begin + below(60), fmt::format("k{}", below(6)), std::uint32_t(below(5)), mark,
              below(5) == 0 ? KernelKind::copy : KernelKind::kernel, std::uint32_t(below(3)));
      }
    const std::vector<StepWindow> windows = step_windows(r, 1, 3);
    const KernelTable t = kernel_table(r, windows);
    double busy_s = 0, rows_s = 0;
    std::int64_t calls = 0;
    for (const CategoryRow& c : t.categories) busy_s += c.exposed_s;
    for (const KernelRow& row : t.rows) {
      rows_s += row.exposed_s;
      calls += row.calls;
      EXPECT_LE(row.exposed_s, row.time_s + 1e-15);
    }
    EXPECT_NEAR(busy_s + t.idle_s, t.window_s, 1e-13);
    EXPECT_NEAR(rows_s, busy_s, 1e-13);
    EXPECT_EQ(calls, 120) << "each record once";
    // The union by another way: a mark for each nanosecond.
    std::vector<char> busy(std::size_t(windows[2].end_ns), 0);
    for (const KernelRecord& k : r.records)
      for (std::int64_t ns = k.begin_ns; ns < k.end_ns; ++ns) busy[std::size_t(ns)] = 1;
    const auto begin = busy.begin() + windows[0].begin_ns;
    EXPECT_NEAR(1e9 * busy_s, std::accumulate(begin, busy.end(), 0), 1e-4);
  }
}

TEST(KernelTable, AnEvaluationBetweenStepsIsOfNoStep) {
  Records r;
  r.add(0, 10, "k", 3, 1);
  r.add(20, 30, "k", 3, 2);
  r.add(40, 90, "evaluation", 0, KernelRecord::kNoMark);
  r.add(100, 110, "k", 3, 3);
  r.add(200, 210, "evaluation", 0, KernelRecord::kNoMark);
  const std::vector<StepWindow> windows = step_windows(r, 2, 2);
  EXPECT_EQ(windows[0].begin_ns, 10);
  EXPECT_EQ(windows[1].begin_ns, 90);
  EXPECT_NEAR(1e9 * kernel_table(r, windows).window_s, 20 + 20, 1e-6);
  EXPECT_CONTAINS(test::error_of([&] { step_windows(r, 4, 1); }), "no kernel of step 4");
  EXPECT_CONTAINS(test::error_of([&] { step_windows(r, 1, 1); }), "no kernel before step 1");
}

TEST(KernelCategories, FollowKindNameAndRegion) {
  const RegionName none, product{"forward", "matmul/down"}, head{"backward", "linear_cross_entropy"},
      attention{"backward", "attention"}, norm{"forward", "rms_norm/ffn"}, muon{"optimizer", "newton_schulz"};
  const auto is = [](const char* name, KernelKind kind, const RegionName& region) {
    return category_of(name, kind, region);
  };
  EXPECT_EQ(is("nvjet_tst_128x256", KernelKind::kernel, product), Category::products);
  EXPECT_EQ(is("cutlass::device_kernel<mylos::kernels::Epilogue>", KernelKind::kernel, product), Category::products);
  EXPECT_EQ(is("mylos::kernels::detail::Softmax", KernelKind::kernel, head), Category::memory_bound);
  EXPECT_EQ(is("host code and libraries", KernelKind::host, head), Category::products);
  EXPECT_EQ(is("mylos::matmul::reference", KernelKind::kernel, product), Category::products);
  for (const RegionName& where : {product, RegionName{}})
    EXPECT_EQ(
        is("mylos::kernels::hopper::tiles<false, true, mylos::kernels::hopper::Gradient>", KernelKind::kernel, where),
        Category::products);
  EXPECT_EQ(is("mylos::attention::backward", KernelKind::kernel, attention), Category::attention);
  EXPECT_EQ(is("anything", KernelKind::kernel, norm), Category::memory_bound);
  EXPECT_EQ(is("nvjet_tst_128x256", KernelKind::kernel, muon), Category::optimizer);
  EXPECT_EQ(is("set", KernelKind::set, attention), Category::copy_set);
  EXPECT_EQ(is("ncclDevKernel_ReduceScatter_Sum_bf16", KernelKind::kernel, muon), Category::communication);
  EXPECT_EQ(is("sm90_xmma_gemm_bf16", KernelKind::kernel, none), Category::products);
  EXPECT_EQ(is("cudnn_generated_fort_native_sdpa_sm90", KernelKind::kernel, none), Category::attention);
  // The word "comm" holds no product, however it is spelled.
  EXPECT_EQ(is("record_param_comms", KernelKind::kernel, none), Category::memory_bound);
}

TEST(KernelNames, AreShortenedToWhatAPersonReads) {
  EXPECT_EQ(readable_kernel_name("nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN"),
            "nvjet_tst_128x256_64x4_1x2_h_bz_coopA_NTN");
  EXPECT_EQ(
      readable_kernel_name(
          "void Kokkos::Impl::cuda_parallel_launch_local_memory<Kokkos::Impl::ParallelFor<mylos::kernels::detail::"
          "GpuForEach<4, mylos::kernels::device::(anonymous namespace)::AdamW<(mylos::kernels::Weights)0, float> >, "
          "Kokkos::RangePolicy<Kokkos::Cuda>, Kokkos::Cuda> >(Kokkos::Impl::ParallelFor<int>)"),
      "mylos::kernels::detail::GpuForEach<4, mylos::kernels::device::AdamW<(mylos::kernels::Weights)0, float> >");
  EXPECT_EQ(readable_kernel_name("_ZN5mylos4spinEi"), "mylos::spin");
  EXPECT_EQ(readable_kernel_name(std::string(900, 'x')).size(), 200u);
}

TEST(Timeline, IsJsonWhateverTheNamesHold) {
  const test::TemporaryFolder folder;
  Records r;
  r.add(0, 1000, "before", 3, 1);
  r.add(2000, 3500, "quote \" slash \\ line\n tab\t \x01 \xff not UTF-8", 1, 2);
  r.add(4000, 4500, "copy", 0, 2, KernelKind::copy);
  r.records[1].grid = {2, 3, 4};
  const std::vector<StepWindow> windows = step_windows(r, 2, 1);
  const KernelTable table = kernel_table(r, windows);
  EXPECT_EQ(write_timeline(folder / "t.json", r, windows, table), 0);
  std::ifstream in(folder / "t.json");
  const auto j = nlohmann::json::parse(in);
  int kernels = 0;
  for (const auto& e : j["traceEvents"]) {
    if (e["ph"] != "X" || !e.contains("args")) continue;
    ++kernels;
    if (e["cat"] != "products") continue;
    EXPECT_DOUBLE_EQ(e["ts"].get<double>(), 1.0) << "microseconds since the step's begin";
    EXPECT_DOUBLE_EQ(e["dur"].get<double>(), 1.5);
    EXPECT_EQ(e["args"]["grid"], nlohmann::json({2, 3, 4}));
    EXPECT_EQ(e["args"]["region"], "mylos::forward::matmul/qkv");
  }
  EXPECT_EQ(kernels, 2);
  EXPECT_EQ(write_timeline(folder / "short.json", r, windows, table, 1), 1) << "bounded, and it says so";
  std::ifstream shorter(folder / "short.json");
  EXPECT_EQ(nlohmann::json::parse(shorter)["otherData"]["events_left_out"], 1);
  EXPECT_CONTAINS(test::error_of([&] { write_timeline("/nowhere/t.json", r, windows, table); }), "cannot be written");
}

TEST(KernelBundle, IsComputedAnewFromItsRecords) {
  const test::TemporaryFolder folder;
  Records r;
  r.add(0, 100, "before", 3, 4);
  for (std::int32_t mark = 5; mark <= 7; ++mark) {
    const std::int64_t t = 10'000 * mark;
    r.add(t, t + 3000, "gemm", 1, mark);
    r.add(t + 2500, t + 5000, "ncclDevKernel_AllReduce", 0, mark, KernelKind::kernel, 9);
    r.add(t + 6000, t + 7000, "mylos::adamw", 4, mark);
    r.add(t + 6500, t + 7500, "copy host to device", 0, mark, KernelKind::copy, 9);
  }
  KernelProfile p{r, step_windows(r, 5, 3), {}};
  p.table = kernel_table(p.records, p.windows);
  const auto write = [&](const std::string& path, double idle_s) {
    Bundle b(path, BundleKind::profile);
    b.set(collect_provenance({"mylos", "train"}));
    b.set(collect_hardware());
    b.set_config("[model]\ndim = 64\n");
    b.set_plan("{}", {});
    b.set_flop_ledger({});
    put_kernels(b, p);
    if (idle_s > 0) b.set_summary("idle", idle_s, {"s", "wrong"});
    b.finish();
  };
  write(folder / "good.h5", 0);
  for (const Finding& f : validate(folder / "good.h5")) ADD_FAILURE() << f.where << ": " << f.what;
  const std::string text = inspect_text(folder / "good.h5");
  EXPECT_CONTAINS(text, "ncclDevKernel_AllReduce");
  EXPECT_CONTAINS(text, "mylos::forward::matmul/qkv");
  write(folder / "bad.h5", 1e-3);
  const std::vector<Finding> found = validate(folder / "bad.h5");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].where, "/summary/idle");
}

}  // namespace
}  // namespace mylos::measure
