#include "measure/kernel_trace_json.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.hpp"

namespace mylos::measure {
namespace {

using Json = nlohmann::ordered_json;

// An array of events, one a line, in a file that appears under its name when it is whole.
class EventFile {
 public:
  explicit EventFile(const std::string& path)
      : path_(path), temporary_(fmt::format("{}.tmp-{}", path, ::getpid())), out_(temporary_, std::ios::binary) {
    check(out_.is_open(), "the timeline '{}' cannot be written: {}", path_, std::strerror(errno));
    out_ << "{\"traceEvents\":[\n";
  }
  ~EventFile() {
    std::error_code ignored;
    if (!whole_) std::filesystem::remove(temporary_, ignored);
  }
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void event(const Json& j) {
    out_ << (first_ ? "" : ",\n") << j.dump(-1, ' ', false, Json::error_handler_t::replace);
    first_ = false;
  }

  void finish(const Json& other) {
    out_ << "\n],\"displayTimeUnit\":\"ms\",\"otherData\":"
         << other.dump(-1, ' ', false, Json::error_handler_t::replace) << "}\n";
    out_.close();
    check(out_.good(), "not all of the timeline '{}' could be written; is the disk full?", path_);
    std::error_code error;
    std::filesystem::rename(temporary_, path_, error);
    check(!error, "the timeline '{}' cannot be put in place: {}", path_, error.message());
    whole_ = true;
  }

 private:
  std::string path_, temporary_;
  std::ofstream out_;
  bool first_ = true, whole_ = false;
};

constexpr int kProcess = 1;
constexpr std::int64_t kSteps = 0;  // the row of the steps

// Copies have engines of their own, beside the kernels of the same stream.
std::int64_t row_of(const KernelRecord& r) {
  const bool moves = r.kind == KernelKind::copy || r.kind == KernelKind::set;
  return 1 + 2 * std::int64_t(r.stream) + (moves ? 1 : 0);
}

Json named(const char* what, std::int64_t row, const std::string& name) {
  return {{"ph", "M"}, {"name", what}, {"pid", kProcess}, {"tid", row}, {"args", {{"name", name}}}};
}

Json event_of(const KernelRecord& r, const KernelRecords& all, KernelCategory category, std::int64_t origin_ns) {
  Json j = {{"ph", "X"},
            {"name", all.names[r.name]},
            {"cat", name_of(category)},
            {"pid", kProcess},
            {"tid", row_of(r)},
            {"ts", double(r.begin_ns - origin_ns) * 1e-3},
            {"dur", double(r.end_ns - r.begin_ns) * 1e-3}};
  Json& args = j["args"] = {{"region", all.regions[r.region].label()}, {"step", r.mark}};
  if (r.grid[0] > 0) {
    args["grid"] = r.grid;
    args["block"] = r.block;
    args["in_graph"] = r.in_graph;
  }
  if (r.bytes > 0) args["bytes"] = r.bytes;
  return j;
}

}  // namespace

std::int64_t write_timeline(const std::string& path, const KernelRecords& records, std::span<const StepWindow> windows,
                            const KernelTable& table, std::int64_t most) {
  check(!windows.empty(), "a timeline of no step was asked for as '{}'", path);
  const std::int64_t origin_ns = windows.front().begin_ns;
  EventFile file(path);
  file.event(named("process_name", kSteps, records.source));
  file.event(named("thread_name", kSteps, "steps"));
  std::set<std::int64_t> rows;
  for (const StepWindow& w : windows)
    file.event({{"ph", "X"},
                {"name", fmt::format("step {}", w.mark)},
                {"pid", kProcess},
                {"tid", kSteps},
                {"ts", double(w.begin_ns - origin_ns) * 1e-3},
                {"dur", double(w.end_ns - w.begin_ns) * 1e-3}});
  std::int64_t events = 0, left_out = 0;
  for (std::size_t i = 0; i < records.records.size(); ++i) {
    if (table.row_of[i] == KernelTable::kNoRow) continue;
    if (events == most) {
      ++left_out;
      continue;
    }
    ++events;
    const KernelRecord& r = records.records[i];
    if (rows.insert(row_of(r)).second)
      file.event(named("thread_name", row_of(r),
                       fmt::format("stream {} {}", r.stream, row_of(r) % 2 == 0 ? "copies" : "kernels")));
    file.event(event_of(r, records, table.rows[table.row_of[i]].category, origin_ns));
  }
  file.finish({{"source", records.source}, {"events_left_out", left_out}});
  return left_out;
}

}  // namespace mylos::measure
