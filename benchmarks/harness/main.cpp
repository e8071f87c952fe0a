// mylos-bench: chooses cases, measures them under Google Benchmark, keeps a bundle. docs/benchmarks.md.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <exception>
#include <filesystem>
#include <iostream>
#include <map>

#include "base/files.hpp"
#include "base/stop_signal.hpp"
#include "base/text.hpp"
#include "base/usage.hpp"
#include "benchmarks/harness/google_flags.hpp"
#include "benchmarks/harness/list.hpp"
#include "benchmarks/harness/options.hpp"
#include "benchmarks/harness/report_file.hpp"
#include "benchmarks/harness/session.hpp"
#include "measure/provenance.hpp"
#include "measure/telemetry.hpp"
#include "train/products.hpp"

namespace mylos::bench {
namespace {

enum Status { kDone = 0, kFailed = 1, kUsage = 2 };

struct CommandLine {
  std::vector<std::string> all, own, googles;
  GoogleFlags google;
};

CommandLine split(int argc, char** argv) {
  CommandLine line;
  line.all.assign(argv, argv + argc);
  for (int i = 1; i < argc; ++i) (is_google_flag(argv[i]) ? line.googles : line.own).emplace_back(argv[i]);
  line.google = google_flags(line.googles);
  line.googles.insert(line.googles.begin(), line.all.empty() ? "mylos-bench" : line.all[0]);
  return line;
}

// Google Benchmark keeps the pointer to the program's name: `arguments` must outlive the last report.
void give_google(std::vector<std::string>& arguments) {
  std::vector<char*> argv;
  for (std::string& a : arguments) argv.push_back(a.data());
  argv.push_back(nullptr);
  int argc = int(arguments.size());
  benchmark::Initialize(&argc, argv.data());
  if (argc > 1) usage_error("Google Benchmark does not take '{}'", argv[1]);
}

void describe(measure::Bundle& bundle, const std::vector<std::string>& command_line, const MeasureOptions& m,
              bool quick) {
  bundle.set(measure::collect_provenance(command_line));
  measure::Hardware hardware = measure::collect_hardware();
  measure::Telemetry().describe(hardware);
  bundle.set(hardware);
  bundle.set_config(
      fmt::format("[bench]\nbudget_s = {}\ntarget_width = {}\nmin_samples = {}\nmax_samples = {}\nsample_s = {}\n"
                  "warm_up_s = {}\nrotate = {}\ncold_bytes = {}\nslow_down = {}\nquick = {}\n",
                  m.stop.budget_s, m.stop.target_width, m.stop.min_samples, m.stop.max_samples, m.sample_s, m.warm_up_s,
                  m.rotate, m.cold_bytes, m.slow_down, quick));
}

std::vector<std::size_t> choose(const Cases& all, const Options& o) {
  if (!o.patterns.empty() || !o.quick) {
    std::vector<std::string> names;
    for (const Case& c : all) names.push_back(c.name);
    return select(names, o.patterns);
  }
  std::vector<std::size_t> quick;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (all[i].quick) quick.push_back(i);
  return quick;
}

std::vector<const Case*> only(const Cases& all, const std::vector<std::size_t>& chosen) {
  std::vector<const Case*> list;
  for (const std::size_t i : chosen) list.push_back(&all[i]);
  return list;
}

std::int64_t pool_bytes(const Options& o) {
  const double gib = o.pool_gib > 0 ? o.pool_gib : device_info().is_gpu ? 32 : 0.75;
  const auto bytes = std::int64_t(gib * 0x1p30), most = device_info().memory_bytes / 2;
  return o.pool_gib > 0 ? bytes : std::min(bytes, most);
}

MeasureOptions measure_options(const Options& o) {
  MeasureOptions m = usual_options(o.quick);
  m.stop.budget_s = o.budget_s.value_or(m.stop.budget_s);
  m.stop.target_width = o.target_width.value_or(m.stop.target_width);
  m.sample_s = o.sample_s.value_or(m.sample_s);
  m.slow_down = o.slow_down;
  if (const double most = m.stop.budget_s / double(m.stop.least_samples); o.sample_s && m.sample_s > most)
    usage_error(
        "--sample is {} s; at most {} s are possible, as {} samples at least must fit in the budget of {} s (--budget)",
        m.sample_s, most, m.stop.least_samples, m.stop.budget_s);
  if (m.sample_s > m.stop.budget_s)
    usage_error("--budget is {} s, less than one sample of {} s; raise it, or shorten samples with --sample",
                m.stop.budget_s, m.sample_s);
  return m;
}

// Both are begun before the first case: from then on an earlier file would be gone.
void check_outputs(const Options& o, const std::string& report) {
  if (!o.bundle.empty() && !report.empty() && is_same_file(o.bundle, report))
    usage_error("--bundle '{}' and --benchmark_out='{}' are one file; name two", o.bundle, report);
  for (const std::string& path : {o.bundle, report}) {
    std::error_code error;
    if (path.empty() || !std::filesystem::exists(path, error)) continue;
    check(o.products.empty() || !is_same_file(path, o.products),
          "output '{}' is the file of products that is read; choose another name", path);
    check(o.overwrite, "'{}' exists; choose another name, or say --overwrite to replace it", path);
    check(std::filesystem::is_regular_file(path, error),
          "'{}' is not a regular file, and so is not replaced; choose another name", path);
  }
}

int measure_all(CommandLine& line, const Options& o) {
  const Runtime runtime({.threads = o.threads});
  const DeviceInfo device = device_info();
  const Cases all = all_cases({.gpu = device.is_gpu, .quick = o.quick});
  const std::vector<std::size_t> chosen = choose(all, o);
  if (o.list) {
    for (const std::size_t i : chosen) std::cout << all[i].name << '\n';
    return kDone;
  }
  const MeasureOptions m = measure_options(o);
  give_google(line.googles);
  check_outputs(o, line.google.out);
  ReportFile report(line.google.out, line.google.format);

  measure::Bundle bundle(o.bundle.empty() ? "mylos-bench.h5" : o.bundle, measure::BundleKind::bench);
  measure::BenchRecord record(bundle, {WarmUp::kRule, Stop::kRule, kRejectRule});
  std::string why_no_sensor;
  const auto sensor = open_sensor(why_no_sensor);
  if (!o.bundle.empty()) {
    describe(bundle, line.all, m, o.quick);
    bundle.set_attribute("/telemetry", "status",
                         sensor ? std::string("not a series: readings are with the samples, /samples/calls")
                                : "not available: " + why_no_sensor);
    bundle.publish();  // a path that cannot be written shows now
  }
  const std::string products = train::use_products(o.products);
  bundle.set_attribute("/config", "products", products);
  Pool pool(pool_bytes(o));
  Session session(pool, m, sensor.get(), o.bundle.empty() ? nullptr : &bundle, record);
  const std::vector<const Case*> list = o.no_rooflines ? only(all, chosen) : with_rooflines(all, chosen);
  std::map<std::string, Case> copies;
  for (const Case* c : list)
    if (o.copies && only_moves(*c)) copies.try_emplace(copy_name(c->work.bytes), copy_of(c->work.bytes));
  for (const auto& [name, c] : copies) session.add(c);
  for (const Case* c : list) session.add(*c);
  if (line.google.own_table)
    std::cout << device.name << ", " << device.backend << ", " << device.concurrency << " threads; "
              << (sensor ? "NVML" : why_no_sensor) << '\n'
              << products << '\n';
  const auto table = line.google.own_table ? session.reporter() : nullptr;
  benchmark::RunSpecifiedBenchmarks(table.get(), report.reporter());
  if (!o.bundle.empty()) {
    bundle.finish();
    std::cerr << "bundle " << o.bundle << '\n';
  }
  report.finish();
  if (session.failures() > 0) std::cerr << "mylos-bench: " << session.failures() << " cases failed\n";
  const bool nothing = session.without_room() == int(copies.size() + list.size());
  if (nothing) std::cerr << "mylos-bench: none of the cases had room; raise --pool, or choose smaller ones\n";
  return session.failures() > 0 || nothing ? kFailed : kDone;
}

int run(int argc, char** argv) {
  CommandLine line = split(argc, argv);
  const Options o = parse(line.own);
  if (o.help) {
    std::cout << kHelp;
    return kDone;
  }
  const int status = measure_all(line, o);
  std::cout.flush();
  if (!std::cout.good()) fail("not all of the output could be written; is the disk full?");
  return status;
}

}  // namespace
}  // namespace mylos::bench

int main(int argc, char** argv) {
  using namespace mylos::bench;
  mylos::full_files_are_errors();
  try {
    return run(argc, argv);
  } catch (const mylos::UsageError& e) {
    std::cerr << "mylos-bench: " << mylos::printable(e.what()) << '\n';
    return kUsage;
  } catch (const std::exception& e) {
    std::cerr << "mylos-bench: " << mylos::printable(e.what()) << '\n';
    return kFailed;
  }
}
