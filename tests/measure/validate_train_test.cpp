// `mylos validate` takes no figure of a training run on trust: each is computed anew, and raw values must be those of a run.
#include <hdf5.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>

#include "checkpoint/store.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "measure/inspect.hpp"
#include "measure/nvml.hpp"
#include "measure/sample_bundle.hpp"
#include "measure/telemetry_summary.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using test::SampleBundle;
using test::TemporaryFolder;
using Row = std::map<std::string, double>;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

// A run on a GPU that was watched: 24 steps of half a second, an evaluation, ten samples a second.
class MadeRun : public SampleBundle {
 public:
  explicit MadeRun(const std::string& path) : SampleBundle(path) {
    steps_ = *bundle.find_table("samples", "steps");
    gpu_ = bundle.add_table("telemetry", "gpu",
                            {{"time", "s", "t"},
                             {"energy", "J", "e"},
                             {"sm_clock", "MHz", "c"},
                             {"throttle_reasons", "1", "r"},
                             {"memory_used", "byte", "m"}});
    bundle.before_publish([this](Bundle& b) { summarize_telemetry(b, gpu_); });
    for (int i = 0; i < 140; ++i)
      bundle.append(gpu_, {0.1 * i, 60.0 * i, 1700, i % 2 ? 0.0 : double(kReasonPowerCap), 3e9});
    for (int i = 1; i <= 24; ++i) step({});
    record->evaluation({.step = 24, .loss = 3, .bits_per_byte = 1, .tokens = 10, .time_s = 1});
    bundle.set_summary("device_memory_peak", 2e6, {"bytes", "most device memory held at once"});
    record->status("finished");
  }

  // The next step, with what is `other` in it.
  void step(const Row& other) {
    ++count_;
    Row row{{"step", count_},       {"loss", 5 / std::sqrt(count_)}, {"grad_norm", 1},   {"learning_rate", 1e-3},
            {"tokens", 4096},       {"valid_tokens", 4000},          {"step_time", 0.5}, {"data_wait", 0.01},
            {"tokens_per_s", 8192}, {"time", 0.5 * count_}};
    for (const auto& [name, value] : other) row[name] = value;
    bundle.append(steps_, {row["step"], row["loss"], row["grad_norm"], row["learning_rate"], row["tokens"],
                           row["valid_tokens"], row["step_time"], row["data_wait"], row["tokens_per_s"], row["time"]});
  }

 private:
  int steps_, gpu_;
  double count_ = 0;
};

std::string errors(const std::string& path) {
  std::string all;
  for (const Finding& f : validate(path))
    if (f.error) all += f.where + ": " + f.what + "\n";
  return all;
}

// What is wrong with a run that `change` made.
std::string errors_of(const std::function<void(MadeRun&)>& change) {
  const TemporaryFolder folder;
  MadeRun run(folder / "run.h5");
  change(run);
  run.bundle.finish();
  return errors(folder / "run.h5");
}

// What is wrong with a run, a column of which was changed once it was written: the writer would compute other figures, or refuse rates without
// a median.
std::string errors_with(const std::string& dataset, const std::function<void(std::vector<double>&)>& change) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.h5";
  {
    MadeRun run(path);
    run.bundle.finish();
  }
  std::vector<double> column = checkpoint::Reader(path).reals(dataset);
  change(column);
  checkpoint::Writer fresh(folder / "column.h5");
  fresh.reals(dataset, column, {"1", "for the test"});
  fresh.commit();
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT),
              other = H5Fopen((folder / "column.h5").c_str(), H5F_ACC_RDONLY, H5P_DEFAULT);
  H5Ldelete(file, dataset.c_str(), H5P_DEFAULT);
  H5Ocopy(other, dataset.c_str(), file, dataset.c_str(), H5P_DEFAULT, H5P_DEFAULT);
  H5Fclose(other);
  H5Fclose(file);
  return errors(path);
}

TEST(ValidateTrain, ARunIsValid) {
  EXPECT_EQ(errors_of([](MadeRun&) {}), "");
  EXPECT_EQ(errors_of([](MadeRun& r) { r.step({{"time", kNaN}}); }), "") << "a time that is not known";
}

TEST(ValidateTrain, RefusesStepsThatNoRunHas) {
  const std::pair<const char*, std::vector<double>> wrong[] = {
      {"step_time", {0, -1, kInf, kNaN}},
      {"tokens", {0, -1, kInf, kNaN, 4096.5, 1e300}},
      {"tokens_per_s", {0, -1, kInf, kNaN, 8193}},
      {"data_wait", {-1, kInf, kNaN}},
      {"valid_tokens", {-1, kNaN, 4097, 0.5}},
      {"step", {0, -3, 23, 25.5, kNaN, kInf}},
      {"loss", {kNaN, kInf}},
      {"grad_norm", {-1, kNaN, kInf}},
      {"learning_rate", {-1, kNaN, kInf}},
      {"time", {0, -1, 12.1, kInf}},
  };
  for (const auto& [name, values] : wrong) {
    for (const double value : values) {
      const bool is_step = name == std::string("step");
      const std::string dataset = std::string("/samples/steps/") + name;
      const std::string found =
          errors_with(dataset, [&](std::vector<double>& column) { column[is_step ? column.size() - 1 : 2] = value; });
      EXPECT_CONTAINS(found, "/samples/steps/") << name << " " << value;
    }
  }
}

TEST(ValidateTrain, NothingAgreesWithAnInfiniteFigure) {
  // Finite values, whose sum or whose part of the window is not.
  EXPECT_CONTAINS(errors_with("/samples/steps/data_wait", [](std::vector<double>& v) { v[20] = v[21] = 1e308; }),
                  "/summary/data_wait_fraction: is ");
  EXPECT_CONTAINS(errors_with("/samples/steps/loss", [](std::vector<double>& v) { v[20] = v[21] = 1e308; }),
                  "/summary/train_loss_last_10_mean: is ");
}

TEST(ValidateTrain, RefusesALedgerThatNoStepHas) {
  for (const char* name : {"flops", "bytes", "calls"})
    for (const double value : {-1.0, kNaN, kInf})
      EXPECT_CONTAINS(
          errors_with(std::string("/plan/flop_ledger/") + name, [&](std::vector<double>& v) { v[0] = value; }),
          "/plan/flop_ledger: row 0 has ");
}

TEST(ValidateTrain, ADivergedRunMustSaySo) {
  for (const char* name : {"loss", "grad_norm"}) {
    EXPECT_CONTAINS(errors_of([&](MadeRun& r) { r.step({{name, kNaN}}); }), "the run must say that it failed");
    EXPECT_EQ(errors_of([&](MadeRun& r) {
                r.step({{name, kNaN}});
                r.record->status("failed: step 25: the loss is not finite");
              }),
              "");
  }
}

TEST(ValidateTrain, RefusesEveryFigureThatDoesNotFollow) {
  const TemporaryFolder folder;
  {
    MadeRun run(folder / "run.h5");
    run.bundle.finish();
  }
  const checkpoint::Reader file(folder / "run.h5");
  int figures = 0;
  for (const std::string group : {"/summary", "/derived"}) {
    for (const std::string& name : file.datasets(group)) {
      if (name == "device_memory_peak") continue;
      ++figures;
      const std::string path = group + "/" + name;
      for (const double value : {1.001 * file.real(path) + 1e-3, kNaN, kInf}) {
        const std::string found = errors_of([&](MadeRun& r) {
          r.bundle.before_publish([=](Bundle& b) {
            if (group == "/summary")
              b.set_summary(name, value, {"1", "altered"});
            else
              b.set_derived(name, value, {"1", "altered"});
          });
        });
        EXPECT_CONTAINS(found, path + ": is ") << found;
      }
      const std::string copy = folder / "copy.h5";
      std::filesystem::copy_file(folder / "run.h5", copy, std::filesystem::copy_options::overwrite_existing);
      const hid_t damaged = H5Fopen(copy.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
      H5Ldelete(damaged, path.c_str(), H5P_DEFAULT);
      H5Fclose(damaged);
      EXPECT_CONTAINS(errors(copy), path + ": dataset is missing");
    }
  }
  EXPECT_GE(figures, 26);
}

TEST(ValidateTrain, RefusesFiguresAndAttributesThatNothingGives) {
  EXPECT_CONTAINS(errors_of([](MadeRun& r) {
                    r.bundle.set_derived("mfu_best", 0.99, {"1", "made up"});
                  }),
                  "/derived/mfu_best: nothing in the file gives");
  EXPECT_CONTAINS(errors_of([](MadeRun& r) { r.bundle.set_attribute("/derived", "no_mfu", std::string("unknown")); }),
                  "/derived:no_mfu: says that there is none");
  const auto altered = [](const std::string& group, const std::string& name, const checkpoint::AttributeValue& value) {
    return errors_of(
        [&](MadeRun& r) { r.bundle.before_publish([=](Bundle& b) { b.set_attribute(group, name, value); }); });
  };
  EXPECT_CONTAINS(altered("/summary", "steady_window_rule", std::string("the fastest step")), "steady_window_rule");
  EXPECT_CONTAINS(altered("/summary", "steady_window_is_short", true), "steady_window_is_short");
  EXPECT_CONTAINS(altered("/derived", "devices", std::int64_t(2)), "/derived:devices");
  EXPECT_CONTAINS(altered("/derived", "device", std::string("NVIDIA H100 PCIe")), "/derived:device");
  EXPECT_CONTAINS(errors_of([](MadeRun& r) {
                    r.bundle.before_publish([](Bundle& b) {
                      b.set_derived("mfu_causal", b.column(0, "tokens")[0], {"1", "altered", {{"peak_flops", 1e12}}});
                    });
                  }),
                  "/derived/mfu_causal: is 4096");
  EXPECT_CONTAINS(errors_of([](MadeRun& r) { r.bundle.set_config("[model]\ndim = 64\nlayers = 2\n"); }),
                  "train.sequence");
  EXPECT_CONTAINS(errors_of([](MadeRun& r) { r.bundle.set_config("[model]\ndim = 128\n[train]\nsequence = 128\n"); }),
                  "model_flops_per_token_causal");
}

TEST(ValidateTrain, HoldsPeakMemoryAgainstTheDeviceAndItsSamples) {
  const auto peak = [](double bytes) {
    return errors_of([=](MadeRun& r) { r.bundle.set_summary("device_memory_peak", bytes, {"bytes", "altered"}); });
  };
  for (const double bytes : {0.0, -1.0, kNaN, kInf}) EXPECT_CONTAINS(peak(bytes), "/summary/device_memory_peak");
  EXPECT_CONTAINS(peak(1e18), "the device has");
  EXPECT_CONTAINS(peak(3.5e9), "saw more than 3000000000");
}

TEST(ValidateTrain, HoldsTheFillOfRowsWithinItsBounds) {
  const auto fill = [](double part) {
    return errors_of([=](MadeRun& r) { r.bundle.set_summary("data_fill", part, {"1", "altered"}); });
  };
  EXPECT_EQ(fill(1), "");
  for (const double part : {0.0, -1.0, 1.01, kNaN, kInf}) EXPECT_CONTAINS(fill(part), "/summary/data_fill");
}

TEST(ValidateTrain, RefusesTelemetryThatNoSensorGives) {
  for (const auto& row : std::vector<std::vector<double>>{{1, 1e6, 1700, 0, 1},       // earlier than the one before
                                                          {20, 1, 1700, 0, 1},        // energy was given back
                                                          {20, 1e6, -1, 0, 1},        // clock
                                                          {20, 1e6, 1700, 0.5, 1},    // half a reason
                                                          {20, 1e6, 1700, 1e300, 1},  // more bits than there are
                                                          {kInf, 1e6, 1700, 0, 1}})
    EXPECT_CONTAINS(errors_of([&](MadeRun& r) { r.bundle.append(*r.bundle.find_table("telemetry", "gpu"), row); }),
                    "/telemetry/gpu/");
}

}  // namespace
}  // namespace mylos::measure
