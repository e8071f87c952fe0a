// The columns of a `bench` bundle, for the writer (bench_record) and the reader (bench_record_file): name, units, meaning and field.
#pragma once

#include <cstdint>
#include <string>

#include "measure/bench_record.hpp"

namespace mylos::measure {

struct BenchTextColumn {
  const char* name;
  std::string BenchCase::*field;
  const char* description;
};

inline constexpr BenchTextColumn kBenchTexts[] = {
    {"name", &BenchCase::name, "what is timed; unique"},
    {"component", &BenchCase::component, "forward, optimizer, data, checkpoint or harness"},
    {"dtype", &BenchCase::dtype, "of the operands; empty where that says nothing"},
    {"item_units", &BenchCase::item_units, "what items are; empty without"},
    {"work_source", &BenchCase::work_source, "where flops, bytes and items come from"},
    {"check", &BenchCase::check, "what the results were held against before timing"},
    {"no_check", &BenchCase::no_check, "why they were not; empty when they were"},
    {"stop", &BenchCase::stop, "why sampling ended"},
    {"skipped", &BenchCase::skipped, "why there are no samples; empty when there are"},
};

struct BenchNumberColumn {
  const char* name;
  double (*get)(const BenchCase&);
  void (*set)(BenchCase&, double);
  const char *units, *description;
  bool may_be_nan = false;
  bool may_be_absent = false;  // in older files, and where nobody counts: 0
};

inline constexpr BenchNumberColumn kBenchNumbers[] = {
    {"on_device", [](const BenchCase& c) { return c.on_device ? 1.0 : 0.0; },
     [](BenchCase& c, double v) { c.on_device = v != 0; }, "1",
     "1: work of the device that kernels run on, 0: of the host"},
    {"warm", [](const BenchCase& c) { return c.warm ? 1.0 : 0.0; }, [](BenchCase& c, double v) { c.warm = v != 0; },
     "1", "1: operands may stay in caches, 0: they come from memory"},
    {"threads", [](const BenchCase& c) { return double(c.threads); },
     [](BenchCase& c, double v) { c.threads = std::int64_t(v); }, "1", "CPU threads that take part"},
    {"flops", [](const BenchCase& c) { return c.flops; }, [](BenchCase& c, double v) { c.flops = v; }, "FLOP",
     "of one call, a multiply-add as two; 0: not counted"},
    {"bytes", [](const BenchCase& c) { return c.bytes; }, [](BenchCase& c, double v) { c.bytes = v; }, "byte",
     "of one call when each operand moves once; 0: not counted"},
    {"items", [](const BenchCase& c) { return c.items; }, [](BenchCase& c, double v) { c.items = v; }, "1",
     "of one call, in item_units; 0: not counted"},
    {"memory", [](const BenchCase& c) { return c.memory_bytes; }, [](BenchCase& c, double v) { c.memory_bytes = v; },
     "byte", "memory of the device that one set of operands takes; 0: not counted", false, true},
    {"error", [](const BenchCase& c) { return c.error; }, [](BenchCase& c, double v) { c.error = v; }, "1",
     "largest error of the check; NaN without one", true},
    {"bound", [](const BenchCase& c) { return c.bound; }, [](BenchCase& c, double v) { c.bound = v; }, "1",
     "what the error may be; NaN without a check", true},
    {"calls_per_sample", [](const BenchCase& c) { return double(c.calls_per_sample); },
     [](BenchCase& c, double v) { c.calls_per_sample = std::int64_t(v); }, "1", "calls that one sample is the mean of"},
    {"warm_up_calls", [](const BenchCase& c) { return double(c.warm_up_calls); },
     [](BenchCase& c, double v) { c.warm_up_calls = std::int64_t(v); }, "1", "calls before the first sample"},
    {"warm_up", [](const BenchCase& c) { return c.warm_up_s; }, [](BenchCase& c, double v) { c.warm_up_s = v; }, "s",
     "time of the calls before the first sample"},
};

struct BenchFigureColumn {
  const char* name;
  double BenchFigures::*field;
  const char *units, *description;
};

inline constexpr BenchFigureColumn kBenchFigures[] = {
    {"median", &BenchFigures::median, "s", "median time of a call"},
    {"mad", &BenchFigures::mad, "s", "median of the distances from the median"},
    {"median_low", &BenchFigures::low, "s", "lower end of the median's 95 % interval"},
    {"median_high", &BenchFigures::high, "s", "upper end of the median's 95 % interval"},
    {"flop_rate", &BenchFigures::flop_rate, "FLOP/s", "flops over median"},
    {"byte_rate", &BenchFigures::byte_rate, "byte/s", "bytes over median"},
    {"item_rate", &BenchFigures::item_rate, "1/s", "items over median"},
    {"sm_clock", &BenchFigures::sm_clock, "MHz", "median SM clock of the samples that have one"},
    {"roofline", &BenchFigures::roofline, "s", "longer of flops and bytes at the rates of /derived/rooflines"},
    {"share", &BenchFigures::share, "1", "roofline over median"},
};

// Rates that cases of the run itself reached, in byte/s for the two memories and in FLOP/s for a dtype.
inline constexpr const char* kMemoryLimit = "memory";           // of the device
inline constexpr const char* kHostMemoryLimit = "host_memory";  // for cases that do not run on the device
double roofline_rate(const std::string& limit, const BenchCase& c, double median_s);

}  // namespace mylos::measure
