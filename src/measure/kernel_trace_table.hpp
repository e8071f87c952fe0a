// Kernel records summed up: by kernel and region, and by category, so that all of it adds up to the time of the steps.
//
// Each record is counted once. Where records overlap (streams, graphs with branches) an instant belongs to one of them: the one whose
// category comes first in KernelCategory, then the one that began first. `exposed` is the time that a row has so; over all rows it is the
// union of all intervals, and with `idle` exactly the window. `time` is the plain sum of durations, also of what ran beside other
// work: communication that is hidden has time but little that is exposed.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/kernel_trace.hpp"

namespace mylos::measure {

enum class KernelCategory { products, attention, optimizer, memory_bound, communication, copy_set };
inline constexpr std::size_t kKernelCategories = 6;
const char* name_of(KernelCategory category);

// By kind first (copy, set), then NCCL's kernels by name, then the class of the region's op (op_table.hpp); kernels of ours in the region of
// a product (softmax, conversions) are memory-bound. Outside of regions the name decides.
KernelCategory category_of(std::string_view name, KernelKind kind, const RegionName& region);

struct StepWindow {
  std::int32_t mark;
  std::int64_t begin_ns, end_ns;
};
// The window of each mark in first..first+count-1: from the end of the last record of all marks before it (and of unmarked work, such as
// an evaluation, that ended before its first) to the end of its own last record. Throws Error when a mark has no record, or none came
// before the first.
std::vector<StepWindow> step_windows(const KernelRecords& records, std::int32_t first, std::int32_t count);

struct KernelRow {
  std::uint32_t name, region;  // places in KernelRecords
  KernelCategory category;
  std::int64_t calls = 0;
  double time_s = 0, exposed_s = 0;
};
struct CategoryRow {
  std::int64_t calls = 0;
  double time_s = 0, exposed_s = 0;
};
struct KernelTable {
  std::vector<KernelRow> rows;  // longest exposed first; sums over all windows
  std::array<CategoryRow, kKernelCategories> categories{};
  std::vector<std::uint32_t> row_of;  // of each record; kNoRow: outside of the windows
  std::int64_t steps = 0;
  double window_s = 0, idle_s = 0;  // sums over all windows
  double outside_regions_s = 0;     // time of kernels that no region queued
  static constexpr std::uint32_t kNoRow = ~std::uint32_t(0);
};
// Windows in order and disjoint. A record counts in the window that it ends in, and its time only as far as it lies there.
KernelTable kernel_table(const KernelRecords& records, std::span<const StepWindow> windows);

// Figures of one step: categories with idle, then the `most` longest kernels.
std::string to_text(const KernelTable& table, const KernelRecords& records, std::size_t most);

}  // namespace mylos::measure
