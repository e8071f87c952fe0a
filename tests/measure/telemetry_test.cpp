// Telemetry on a driver that the test plays.
#include "measure/telemetry.hpp"

#include <cmath>
#include <cstring>
#include <thread>

#include "base/error.hpp"
#include "checkpoint/temporary_folder.hpp"
#include "measure/inspect.hpp"
#include "measure/sample_bundle.hpp"
#include "measure/telemetry_summary.hpp"
#include "support/host_tensor.hpp"

namespace mylos::measure {
namespace {

using checkpoint::Reader;
using test::error_of;
using test::SampleBundle;
using test::TemporaryFolder;

int g_device = 0;  // its address is the handle
int g_open = 0;    // init() without shutdown()

int put(unsigned* out, void* device, unsigned value) {
  EXPECT_EQ(device, &g_device);
  *out = value;
  return 0;
}

int copy_text(const char* text, char* out, unsigned size) {
  std::strncpy(out, text, size - 1);
  return 0;
}

NvmlCalls fake() {
  NvmlCalls c;
  c.init = [] { return ++g_open, 0; };
  c.shutdown = [] { return --g_open, 0; };
  c.error_text = [](int error) { return error == 6 ? "Not Found" : "Driver Not Loaded"; };
  c.driver_version = [](char* out, unsigned size) { return copy_text("580.65", out, size); };
  c.nvml_version = [](char* out, unsigned size) { return copy_text("13.580", out, size); };
  c.device_by_bus_id = [](const char* id, void** device) {
    *device = &g_device;
    return std::strcmp(id, "0000:1b:00.0") == 0 ? 0 : 6;
  };
  c.uuid = [](void*, char* out, unsigned size) { return copy_text("GPU-1234", out, size); };
  c.power = [](void* d, unsigned* out) { return put(out, d, 650'500); };
  c.power_limit = [](void* d, unsigned* out) { return put(out, d, 700'000); };
  c.clock = [](void* d, unsigned kind, unsigned* out) {
    return put(out, d, kind == NvmlCalls::kSmClock ? 1755 : 3201);
  };
  c.max_clock = [](void* d, unsigned kind, unsigned* out) {
    return put(out, d, kind == NvmlCalls::kSmClock ? 1980 : 3201);
  };
  c.temperature = [](void* d, unsigned, unsigned* out) { return put(out, d, 54); };
  c.clock_reasons = [](void*, unsigned long long* out) { return *out = kReasonPowerCap | kReasonHwThermal, 0; };
  c.energy = [](void*, unsigned long long* out) { return *out = 123'456, 0; };
  c.memory = [](void*, NvmlCalls::Memory* out) { return *out = {100, 40, 60}, 0; };
  return c;
}

TEST(GpuSensor, ReadsInUnitsOfTheSystem) {
  {
    const GpuSensor sensor(fake(), "0000:1b:00.0");
    const GpuReading r = sensor.read();
    EXPECT_DOUBLE_EQ(r.power_w, 650.5);
    EXPECT_EQ(r.sm_clock_mhz, 1755);
    EXPECT_EQ(r.memory_clock_mhz, 3201);
    EXPECT_EQ(r.temperature_c, 54);
    EXPECT_DOUBLE_EQ(r.energy_j, 123.456);
    EXPECT_EQ(r.memory_used_bytes, 60);
    EXPECT_EQ(r.throttle_reasons, 0x44u);
    const GpuFacts f = sensor.facts();
    EXPECT_EQ(f.uuid, "GPU-1234");
    EXPECT_EQ(f.power_limit_w, 700);
    EXPECT_EQ(f.max_sm_clock_mhz, 1980);
  }
  EXPECT_EQ(g_open, 0);
}

TEST(GpuSensor, WhatTheDriverDoesNotHaveIsNotANumber) {
  NvmlCalls calls = fake();
  calls.energy = nullptr;
  calls.memory = nullptr;
  calls.clock_reasons = nullptr;
  calls.power = [](void*, unsigned*) { return 3; };
  const GpuReading r = GpuSensor(calls, "0000:1b:00.0").read();
  for (const double value : {r.energy_j, r.memory_used_bytes, r.power_w}) EXPECT_TRUE(std::isnan(value));
  EXPECT_EQ(r.throttle_reasons, 0u);
  EXPECT_EQ(r.sm_clock_mhz, 1755);
}

TEST(GpuSensor, SaysWhyThereIsNone) {
  EXPECT_CONTAINS(error_of([] { GpuSensor(fake(), "0000:00:00.0"); }), "'0000:00:00.0': Not Found");
  EXPECT_EQ(g_open, 0);
  NvmlCalls broken = fake();
  broken.init = [] { return 9; };
  EXPECT_CONTAINS(error_of([&] { GpuSensor(broken, "0000:1b:00.0"); }), "Driver Not Loaded");
}

TEST(Telemetry, SamplesIntoTheBundle) {
  const TemporaryFolder folder;
  SampleBundle s(folder / "run.h5");
  Telemetry telemetry(fake(), "0000:1b:00.0", 0.002);
  Hardware hardware = collect_hardware();
  hardware.device_name = "NVIDIA H200";
  telemetry.describe(hardware);
  s.bundle.set(hardware);
  telemetry.attach(s.bundle);
  telemetry.start(Telemetry::Clock::now());
  s.steps(1, 12);
  s.bundle.publish();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  telemetry.stop();
  s.bundle.finish();
  for (const Finding& f : validate(folder / "run.h5")) ADD_FAILURE() << f.where << ": " << f.what;
  const Reader r(folder / "run.h5");
  EXPECT_EQ(std::get<std::string>(r.attributes("/telemetry").at("status")), "sampled");
  EXPECT_EQ(std::get<double>(r.attributes("/hardware").at("power_limit_w")), 700);
  EXPECT_EQ(std::get<std::string>(r.attributes("/hardware").at("driver_version")), "580.65");
  const std::vector<double> times = r.reals("/telemetry/gpu/time");
  EXPECT_GE(times.size(), 2u);
  EXPECT_TRUE(std::is_sorted(times.begin(), times.end()));
  EXPECT_EQ(r.reals("/telemetry/gpu/power").back(), 650.5);
  EXPECT_LT(std::get<double>(r.attributes("/telemetry").at("sampling_share_of_a_core")), 0.5);
  EXPECT_CONTAINS(std::get<std::string>(r.attributes("/derived").at("no_energy")), "times of steps");
}

TEST(Telemetry, SaysWhyItIsNotAvailable) {
  const TemporaryFolder folder;
  SampleBundle s(folder / "run.h5");
  Telemetry telemetry(fake(), "0000:ff:00.0", 0.05);
  EXPECT_FALSE(telemetry.available());
  telemetry.attach(s.bundle);
  telemetry.start(Telemetry::Clock::now());
  s.steps(1, 3);
  s.bundle.finish();
  const Reader r(folder / "run.h5");
  EXPECT_CONTAINS(std::get<std::string>(r.attributes("/telemetry").at("status")), "not available: NVML does not know");
  EXPECT_FALSE(r.has_group("/telemetry/gpu"));
  if (!device_info().is_gpu) {
    EXPECT_CONTAINS(Telemetry().why_not(), "is not a GPU");
  }
}

// Steps of 4,096 tokens in 0.5 s (the first three: 4 s) on a GPU that takes 600 W; 10 samples a second until `until`.
struct Watched : SampleBundle {
  int gpu;
  Watched(const std::string& path, double until) : SampleBundle(path) {
    gpu = bundle.add_table(
        "telemetry", "gpu",
        {{"time", "s", "t"}, {"energy", "J", "e"}, {"sm_clock", "MHz", "c"}, {"throttle_reasons", "1", "r"}});
    for (int i = 0; 0.1 * i <= until; ++i)
      bundle.append(gpu, {0.1 * i, 1000 + 60.0 * i, i % 2 ? 1700.0 : 1800.0, i % 4 ? 0.0 : double(kReasonPowerCap)});
  }
  void steps(std::int64_t count) {
    double end_s = 0;
    for (std::int64_t s = 1; s <= count; ++s) {
      const double time_s = s <= 3 ? 4.0 : 0.5;
      end_s += time_s;
      if (s == 8) end_s += 3;  // an evaluation before this step
      record->step({.step = s, .tokens = 4096, .valid_tokens = 4096, .step_time_s = time_s, .end_s = end_s});
    }
  }
};

TEST(TelemetrySummary, EnergyPowerAndClocksOfTheSteadyWindow) {
  const TemporaryFolder folder;
  Watched w(folder / "run.h5", 30);
  w.steps(23);
  summarize_telemetry(w.bundle, w.gpu);
  w.bundle.finish();
  const Reader r(folder / "run.h5");
  EXPECT_NEAR(r.real("/derived/energy_per_token"), 600 * 0.5 / 4096, 1e-9) << "the evaluation does not count";
  EXPECT_NEAR(r.real("/summary/power_mean"), 600, 1e-6);
  EXPECT_NEAR(r.real("/summary/sm_clock_median"), 1750, 50);
  EXPECT_NEAR(r.real("/summary/power_capped_share"), 0.25, 0.05);
  EXPECT_FALSE(r.attributes("/derived").contains("no_energy"));
}

TEST(TelemetrySummary, StepsAfterTheLastSampleDoNotCount) {
  const TemporaryFolder folder;
  Watched w(folder / "run.h5", 20);
  w.steps(23);
  summarize_telemetry(w.bundle, w.gpu);
  w.bundle.finish();
  EXPECT_NEAR(Reader(folder / "run.h5").real("/derived/energy_per_token"), 600 * 0.5 / 4096, 1e-9);
}

TEST(TelemetrySummary, AShortRunSaysWhyThereIsNoEnergy) {
  const TemporaryFolder folder;
  Watched w(folder / "run.h5", 12.0);  // the steady window begins later
  w.steps(5);
  summarize_telemetry(w.bundle, w.gpu);
  w.bundle.finish();
  const Reader r(folder / "run.h5");
  EXPECT_CONTAINS(std::get<std::string>(r.attributes("/derived").at("no_energy")), "samples of the GPU");
  EXPECT_FALSE(r.has_dataset("/derived/energy_per_token"));
}

TEST(Provenance, TheCallIsAPlainName) {
  ::unsetenv("MYLOS_CALL");
  ASSERT_EQ(collect_provenance({}).call, "");
  setenv("MYLOS_CALL", "day-1.step_2", 1);
  EXPECT_EQ(collect_provenance({}).call, "day-1.step_2");
  setenv("MYLOS_CALL", "a/b", 1);
  EXPECT_CONTAINS(error_of([] { collect_provenance({}); }), "MYLOS_CALL is 'a/b'");
  setenv("MYLOS_CALL", std::string(65, 'x').c_str(), 1);
  EXPECT_CONTAINS(error_of([] { collect_provenance({}); }), "up to 64");
  unsetenv("MYLOS_CALL");
}

}  // namespace
}  // namespace mylos::measure
