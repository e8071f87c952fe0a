// Kernel records as a timeline that chrome://tracing and Perfetto open: Chrome's trace event format, JSON.
//
// One row a stream and kind of work, one for the steps. It is written as it goes, under a temporary name until it is whole; names are escaped,
// bytes that are not UTF-8 replaced. At most kMostTimelineEvents records go in, the first ones; how many were left out is returned, and stands
// in otherData/events_left_out. Throws Error when the file cannot be written.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "measure/kernel_trace_table.hpp"

namespace mylos::measure {

inline constexpr std::int64_t kMostTimelineEvents = 400'000;  // some 100 MB

// Records inside of the windows; times in microseconds from the first window's begin.
std::int64_t write_timeline(const std::string& path, const KernelRecords& records, std::span<const StepWindow> windows,
                            const KernelTable& table, std::int64_t most = kMostTimelineEvents);

}  // namespace mylos::measure
