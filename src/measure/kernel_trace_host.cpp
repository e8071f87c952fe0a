// Kernel records of a CPU: Kokkos' kernels and copies as they begin and end, and the rest of each region.
#include <chrono>

#include "base/error.hpp"
#include "measure/kernel_trace_impl.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::measure {
namespace {

using Clock = std::chrono::steady_clock;

class HostTrace final : public KernelTrace::Impl, public device::KernelObserver {
 public:
  HostTrace() { all.source = "Kokkos kernels and regions on the host's clock"; }
  ~HostTrace() override { stop_hearing(); }

  void start() override {
    origin_ = Clock::now();
    too_many_ = false;
    depth_ = 0;
    check(device::observe_kernels(this),
          "a Kokkos tool is loaded and hears the kernels already; unset KOKKOS_TOOLS_LIBS to profile kernels");
    hearing_ = true;
  }

  KernelRecords stop() override {
    stop_hearing();
    check(!too_many_, "more than {} kernels ran while they were recorded; profile fewer steps",
          KernelTrace::kMostRecords);
    return all;
  }

  void begin(const Stream& stream, const char* phase, const char* op) override {
    Impl::begin(stream, phase, op);
    seen_to_ = now();
  }
  void end(const Stream& stream) override {
    add_rest(now());
    Impl::end(stream);
  }

  // A copy may be done by a kernel: what is outermost counts.
  void kernel_begins(const char* label) override { work_begins(label, KernelKind::kernel); }
  void copy_begins(const char* label, std::int64_t bytes) override {
    // Views of memory that others own have no label; Kokkos does not tell a copy from a set.
    work_begins(*label != '\0' ? label : "copy or set", KernelKind::copy);
    if (depth_ == 1) work_.bytes = bytes;
  }
  void work_ends() override {
    if (depth_ == 0 || --depth_ > 0) return;
    work_.end_ns = now();
    seen_to_ = work_.end_ns;
    add(work_);
  }

 private:
  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - origin_).count();
  }

  void work_begins(const char* label, KernelKind kind) {
    if (depth_++ > 0) return;
    const std::int64_t t = now();
    add_rest(t);
    work_ = {.begin_ns = t, .name = name_place(label), .region = region, .mark = mark, .kind = kind};
  }

  void add_rest(std::int64_t t) {
    if (!hearing_ || region == 0 || t <= seen_to_) return;
    add({.begin_ns = seen_to_,
         .end_ns = t,
         .name = name_place("host code and libraries"),
         .region = region,
         .mark = mark,
         .kind = KernelKind::host});
    seen_to_ = t;
  }

  void add(const KernelRecord& record) {
    too_many_ = too_many_ || all.records.size() >= KernelTrace::kMostRecords;
    if (!too_many_) all.records.push_back(record);
  }

  void stop_hearing() {
    if (hearing_) device::observe_kernels(nullptr);
    hearing_ = false;
  }

  Clock::time_point origin_ = Clock::now();
  bool hearing_ = false, too_many_ = false;
  int depth_ = 0;
  std::int64_t seen_to_ = 0;  // of the open region, what is in records
  KernelRecord work_;
};

}  // namespace

std::unique_ptr<KernelTrace::Impl> host_trace() { return std::make_unique<HostTrace>(); }

}  // namespace mylos::measure
