#include "measure/bench_record.hpp"

#include <hdf5.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "checkpoint/temporary_folder.hpp"
#include "measure/bench_record_file.hpp"
#include "measure/inspect.hpp"
#include "measure/sample_bench.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using checkpoint::Reader;
using test::error_of;
using test::noisy_samples;
using test::sample_case;
using test::SampleBench;
using test::TemporaryFolder;

std::vector<BenchSample> times(std::initializer_list<double> seconds) {
  std::vector<BenchSample> samples;
  for (const double s : seconds) samples.push_back({.time_s = s});
  return samples;
}

std::string errors(const std::string& path) {
  std::string text;
  for (const Finding& f : validate(path))
    if (f.error) text += f.where + ": " + f.what + "\n";
  return text;
}

void write_bundle(const std::string& path) {
  SampleBench s(path);
  s.record.add(sample_case("copy"), times({1e-3, 1.1e-3, 0.9e-3, 1e-3, 1.2e-3}));
  BenchCase product = sample_case("product");
  product.flops = 4e9;
  std::vector<BenchSample> samples = times({2e-3, 2e-3, 2.1e-3, 1.9e-3, 9.0});
  samples.back().rejected = true;
  s.record.add(product, samples);
  BenchCase skipped = sample_case("huge");
  skipped.skipped = "needs 200 GB, the device has 80";
  s.record.add(skipped, {});
  s.record.roofline("memory", "copy");
  s.record.roofline("bf16", "product");
  s.bundle.finish();
}

TEST(BenchRecord, FiguresFollowFromTheSamples) {
  const TemporaryFolder folder;
  const std::string path = folder / "bench.h5";
  write_bundle(path);
  EXPECT_EQ(errors(path), "");
  const Reader r(path);
  EXPECT_EQ(r.texts("/cases/name"), (std::vector<std::string>{"copy", "product", "huge"}));
  EXPECT_EQ(r.reals("/derived/cases/samples"), (std::vector<double>{5, 4, 0}));
  EXPECT_EQ(r.reals("/derived/cases/median")[1], 2e-3);  // the rejected sample does not count
  EXPECT_TRUE(std::isnan(r.reals("/derived/cases/median")[2]));
  EXPECT_DOUBLE_EQ(r.reals("/derived/cases/byte_rate")[0], 1e12);
  EXPECT_DOUBLE_EQ(r.reals("/derived/cases/flop_rate")[1], 2e12);
  // The product's FLOPs take 2 ms at its own rate, its bytes 1 ms at the copy's.
  EXPECT_DOUBLE_EQ(r.reals("/derived/cases/roofline")[1], 2e-3);
  EXPECT_DOUBLE_EQ(r.reals("/derived/cases/share")[0], 1.0);
  EXPECT_EQ(r.texts("/derived/rooflines/limit"), (std::vector<std::string>{"bf16", "memory"}));
  const BenchFile file = read_bench(r);
  EXPECT_EQ(file.cases[1].flops, 4e9);
  EXPECT_TRUE(file.samples[1].back().rejected);
  EXPECT_EQ(file.cases[2].skipped, "needs 200 GB, the device has 80");
  EXPECT_EQ(file.rooflines.at("memory"), 1e12);
}

TEST(BenchRecord, HostWorkIsHeldAgainstHostMemoryOnly) {
  const TemporaryFolder folder;
  SampleBench s(folder / "bench.h5");
  BenchCase host = sample_case("data/packing");
  host.on_device = false;
  host.flops = 1;
  BenchCase host_copy = sample_case("data/memcpy");
  host_copy.on_device = false;
  s.record.add(sample_case("copy"), times({1e-6}));
  s.record.add(host, times({4e-3}));
  s.record.roofline("memory", "copy");
  EXPECT_TRUE(std::isnan(s.record.figures(1).share));
  s.record.add(host_copy, times({1e-3}));
  s.record.roofline("host_memory", "data/memcpy");
  EXPECT_DOUBLE_EQ(s.record.figures(1).share, 0.25);
  EXPECT_CONTAINS(error_of([&] { s.record.roofline("host_memory", "copy"); }), "runs on the device");
  EXPECT_CONTAINS(error_of([&] { s.record.roofline("bf16", "copy"); }), "counts no FLOPs");
  EXPECT_CONTAINS(error_of([&] { s.record.roofline("f32", "copy"); }), "computes in 'bf16'");
  EXPECT_CONTAINS(error_of([&] { s.record.roofline("memory", "absent"); }), "has not been recorded");
}

TEST(BenchRecord, RefusesWhatCannotBeBelieved) {
  const TemporaryFolder folder;
  SampleBench s(folder / "bench.h5");
  const auto add = [&](const std::function<void(BenchCase&)>& change, const std::vector<BenchSample>& samples) {
    BenchCase c = sample_case("x");
    change(c);
    return error_of([&] { s.record.add(c, samples); });
  };
  const auto good = times({1.0});
  EXPECT_CONTAINS(add([](BenchCase&) {}, {}), "say in `skipped` why");
  EXPECT_CONTAINS(add([](BenchCase&) {}, times({1.0, std::nan("")})), "finite and positive");
  EXPECT_CONTAINS(add([](BenchCase&) {}, times({0.0})), "finite and positive");
  EXPECT_CONTAINS(add([](BenchCase& c) { c.error = 0.1; }, good), "a wrong result is not timed");
  EXPECT_CONTAINS(add([](BenchCase& c) { c.error = std::nan(""); }, good), "a wrong result is not timed");
  EXPECT_CONTAINS(add([](BenchCase& c) { c.check = ""; }, good), "or why they were not");
  EXPECT_CONTAINS(add([](BenchCase& c) { c.work_source = ""; }, good), "set work_source");
  EXPECT_CONTAINS(add([](BenchCase& c) { c.skipped = "no memory"; }, good), "yet has 1 samples");
  EXPECT_CONTAINS(add([](BenchCase& c) { c.items = 5; }, good), "set both or none");
  EXPECT_CONTAINS(add([](BenchCase& c) { c.calls_per_sample = 0; }, good), "0 calls a sample");
  s.record.add(sample_case("x"), good);
  EXPECT_CONTAINS(add([](BenchCase&) {}, good), "recorded already");
  Bundle other(folder / "train.h5", BundleKind::train);
  EXPECT_CONTAINS(error_of([&] { BenchRecord(other, {"a", "b", "c"}); }), "kind 'bench'");
}

// A bench bundle as a hostile or careless program could write it: column by column.
struct Columns {
  std::map<std::string, std::vector<double>> reals;
  std::map<std::string, std::vector<std::string>> texts;
};

Columns columns_of(const std::string& path) {
  const Reader r(path);
  Columns c;
  for (const char* table : {"/cases/", "/samples/calls/", "/derived/cases/", "/derived/rooflines/"})
    for (const std::string& name : r.datasets(std::string(table).substr(0, std::string(table).size() - 1))) {
      const std::string at = table + name;
      if (r.info(at).is_text)
        c.texts[at] = r.texts(at);
      else
        c.reals[at] = r.reals(at);
    }
  return c;
}

void write_columns(const std::string& path, const Columns& c) {
  Bundle bundle(path, BundleKind::bench);
  bundle.set(collect_provenance({"test"}));
  bundle.set(collect_hardware());
  for (const char* rule : {"warm_up_rule", "stop_rule", "reject_rule"})
    bundle.set_attribute("/samples", rule, std::string("none"));
  bundle.finish();
  const Reader r(path);
  checkpoint::Writer w(path);  // samples, too, as whole columns, so that their lengths can differ
  for (const std::string& name : r.walk()) {
    if (r.has_group(name)) w.group(name, r.attributes(name));
    if (!r.has_dataset(name)) continue;
    const checkpoint::About about{"1", "copied"};
    if (r.info(name).is_text && r.info(name).shape.empty()) w.text(name, r.text(name), about);
    if (r.info(name).is_text && !r.info(name).shape.empty()) w.texts(name, r.texts(name), about);
    if (!r.info(name).is_text && r.info(name).dtype == DType::i64) w.integer(name, r.integer(name), about);
  }
  for (const auto& [name, values] : c.reals) w.reals(name, values, {"1", "of the test"});
  for (const auto& [name, values] : c.texts) w.texts(name, values, {"1", "of the test"});
  w.commit();
}

TEST(BenchRecord, ValidateComputesEveryFigureOnceMore) {
  const TemporaryFolder folder;
  const std::string path = folder / "bench.h5";
  write_bundle(path);
  const Columns whole = columns_of(path);
  write_columns(path, whole);
  ASSERT_EQ(errors(path), "");
  Columns older = whole;
  older.reals.erase("/cases/memory");
  write_columns(path, older);
  EXPECT_EQ(errors(path), "");
  for (const auto& [name, values] : whole.reals) {
    if (!name.starts_with("/derived/")) continue;
    Columns changed = whole;
    changed.reals[name][0] += 1e-4 + 1e-4 * std::abs(values[0]);
    if (std::isnan(values[0])) changed.reals[name][0] = 1;
    write_columns(path, changed);
    EXPECT_CONTAINS(errors(path), name == "/derived/rooflines/case" ? "/derived/rooflines/case" : name);
  }
  Columns better = whole;  // all figures fit the slower samples that are gone
  better.reals["/samples/calls/time"][0] = 1.15e-3;
  write_columns(path, better);
  EXPECT_CONTAINS(errors(path), "its samples give");
}

TEST(BenchRecord, ValidateNamesWhatDoesNotFit) {
  const TemporaryFolder folder;
  const std::string path = folder / "bench.h5";
  write_bundle(path);
  const Columns whole = columns_of(path);
  const auto broken = [&](const std::function<void(Columns&)>& change) {
    Columns c = whole;
    change(c);
    write_columns(path, c);
    const std::string found = errors(path);
    EXPECT_CONTAINS(inspect_text(path), "no table of cases");
    return found;
  };
  const std::string calls = "/samples/calls/";
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "case"][2] = 3; }), "there are 3 cases");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "case"][2] = -1; }), "there are 3 cases");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "case"][2] = 0.5; }), "there are 3 cases");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "case"][2] = std::nan(""); }), "there are 3 cases");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "case"][2] = 2; }), "as the reason why it was skipped");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "time"][1] = std::nan(""); }), "finite and positive");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "time"].pop_back(); }), "rows");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "rejected"][0] = 2; }), "neither 0 nor 1");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + "sm_clock"][0] = -5; }), "MHz");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/cases/calls_per_sample"][0] = 1e300; }), "cannot be");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/cases/flops"][0] = -1; }), "cannot be");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/cases/warm"][0] = 2; }), "cannot be");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/cases/threads"][0] = 1.5; }), "cannot be");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/cases/calls_per_sample"][0] = 0; }), "samples of 0 calls");
  for (const char* sensor : {"power", "temperature", "throttle_reasons"})
    for (const double value : {-1.0, double(INFINITY)})
      EXPECT_CONTAINS(broken([&](Columns& c) { c.reals[calls + sensor][0] = value; }), sensor);
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/cases/bytes"].push_back(1); }), "rows");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.texts["/cases/name"][1] = "copy"; }), "twice");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.texts["/cases/stop"].pop_back(); }), "rows");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/cases/memory"][0] = -1; }), "cannot be");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.texts.erase("/cases/check"); }), "/cases/check");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals.erase(calls + "power"); }), "power");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.reals["/derived/rooflines/case"][0] = 7; }), "there are 3 cases");
  EXPECT_CONTAINS(broken([&](Columns& c) { c.texts["/derived/rooflines/limit"][0] = "f32"; }),
                  "cannot be the roofline");
}

TEST(BenchRecord, InspectEndsWithATable) {
  const TemporaryFolder folder;
  const std::string path = folder / "bench.h5";
  write_bundle(path);
  const auto j = nlohmann::json::parse(inspect_json(path));
  EXPECT_EQ(j["cases"][1]["name"], "product");
  EXPECT_EQ(j["cases"][1]["rejected"], 1);
  EXPECT_EQ(j["cases"][1]["median"], 2e-3);
  EXPECT_TRUE(j["cases"][2]["median"].is_null());
  const std::string text = inspect_text(path);
  EXPECT_CONTAINS(text, "1 TB/s");
  EXPECT_CONTAINS(text, "2 TFLOP/s");
  EXPECT_CONTAINS(text, "skipped: needs 200 GB");
}

TEST(BenchRecord, ARunThatDiesLeavesItsCases) {
  const TemporaryFolder folder;
  const std::string path = folder / "bench.h5";
  std::mt19937_64 random(1);
  {
    SampleBench s(path);
    s.record.add(sample_case("a"), noisy_samples(random, 40, 1e-3));
    s.bundle.publish();
    s.record.add(sample_case("b"), noisy_samples(random, 40, 1e-3));
  }
  EXPECT_EQ(errors(path), "");
  EXPECT_EQ(Reader(path).texts("/cases/name"), std::vector<std::string>{"a"});
}

}  // namespace
}  // namespace mylos::measure
