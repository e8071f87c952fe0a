#include "tensor/detail/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.hpp"
#include "tensor/detail/exec.hpp"

#if defined(KOKKOS_ENABLE_OPENMP)
#include <omp.h>
#endif

namespace mylos {
namespace device {
namespace {

using DeviceBytes = Kokkos::View<unsigned char*, Memory, Kokkos::MemoryUnmanaged>;
using HostBytes = Kokkos::View<unsigned char*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

DeviceBytes on_device(const void* p, std::int64_t n) {
  return DeviceBytes(static_cast<unsigned char*>(const_cast<void*>(p)), std::size_t(n));
}
HostBytes on_host(const void* p, std::int64_t n) {
  return HostBytes(static_cast<unsigned char*>(const_cast<void*>(p)), std::size_t(n));
}

[[maybe_unused]] std::string cpu_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(std::min(line.size(), line.find(':') + 2));
  return "unknown CPU";
}

}  // namespace

bool may_start() { return !Kokkos::is_initialized() && !Kokkos::is_finalized(); }

void start(const RuntimeOptions& options) {
  Kokkos::InitializationSettings settings;
  settings.set_disable_warnings(true);
#if defined(KOKKOS_ENABLE_OPENMP)
  // Kokkos has room for this many and does not look: OMP_NUM_THREADS or the cores of a large host may say more.
  if (omp_get_max_threads() > kMostThreads) omp_set_num_threads(kMostThreads);
#endif
  if (options.threads > 0) settings.set_num_threads(options.threads);
  if (kOnGpu) settings.set_device_id(options.device_id);
  Kokkos::initialize(settings);
}

void stop() { Kokkos::finalize(); }

bool profiler_loaded() { return Kokkos::Profiling::profileLibraryLoaded(); }
void push_region(const std::string& name) { Kokkos::Profiling::pushRegion(name); }
void pop_region() { Kokkos::Profiling::popRegion(); }

namespace {
KernelObserver* g_kernels = nullptr;
}  // namespace

bool observe_kernels(KernelObserver* observer) {
  if (g_kernels == nullptr && profiler_loaded()) return false;
  namespace tools = Kokkos::Tools::Experimental;
  g_kernels = observer;
  tools::EventSet events{};
  if (observer != nullptr) {
    const auto begin = [](const char* label, std::uint32_t, std::uint64_t*) { g_kernels->kernel_begins(label); };
    const auto end = [](std::uint64_t) { g_kernels->work_ends(); };
    events.begin_parallel_for = events.begin_parallel_reduce = events.begin_parallel_scan = begin;
    events.end_parallel_for = events.end_parallel_reduce = events.end_parallel_scan = end;
    events.begin_deep_copy = [](Kokkos::Tools::SpaceHandle, const char* label, const void*, Kokkos::Tools::SpaceHandle,
                                const char*, const void*,
                                std::uint64_t bytes) { g_kernels->copy_begins(label, std::int64_t(bytes)); };
    events.end_deep_copy = [] { g_kernels->work_ends(); };
  }
  tools::set_callbacks(events);
  return true;
}

DeviceInfo info() {
  DeviceInfo r;
  r.backend = Exec::name();
  r.concurrency = Exec().concurrency();
  r.is_gpu = kOnGpu;
#if defined(KOKKOS_ENABLE_CUDA)
  r.name = Exec().cuda_device_prop().name;
  r.memory_bytes = std::int64_t(Exec().cuda_device_prop().totalGlobalMem);
#else
  r.name = cpu_name();
  r.memory_bytes = std::int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGE_SIZE);
#endif
  return r;
}

std::string pci_bus_id() {
#if defined(KOKKOS_ENABLE_CUDA)
  char id[32] = "";
  check_plain(cudaDeviceGetPCIBusId(id, sizeof id, Exec().cuda_device()) == cudaSuccess,
              "the CUDA driver does not say where its device is");
  return id;
#else
  return "";
#endif
}

void* allocate(std::int64_t bytes, const std::string& label) {
  try {
    return Kokkos::kokkos_malloc<Memory>(label, std::size_t(bytes));
  } catch (const std::exception&) {
    return nullptr;
  }
}
void release(void* p) { Kokkos::kokkos_free<Memory>(p); }

void copy_in(const Stream& stream, const void* host, void* device, std::int64_t bytes) {
  Kokkos::deep_copy(exec_of(stream), on_device(device, bytes), on_host(host, bytes));
}
void copy_out(const Stream& stream, const void* device, void* host, std::int64_t bytes) {
  Kokkos::deep_copy(exec_of(stream), on_host(host, bytes), on_device(device, bytes));
}
void copy_within(const Stream& stream, const void* source, void* destination, std::int64_t bytes) {
  Kokkos::deep_copy(exec_of(stream), on_device(destination, bytes), on_device(source, bytes));
}
void zero(const Stream& stream, void* p, std::int64_t bytes) {
  Kokkos::deep_copy(exec_of(stream), on_device(p, bytes), static_cast<unsigned char>(0));
}

void* native_stream([[maybe_unused]] const Stream& stream) {
#if defined(KOKKOS_ENABLE_CUDA)
  return exec_of(stream).cuda_stream();
#else
  return nullptr;
#endif
}

}  // namespace device

Stream::Stream() {
#if defined(KOKKOS_ENABLE_CUDA)
  cudaStream_t s = nullptr;
  check_plain(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess, "a CUDA stream could not be made");
  impl_ = std::make_unique<Impl>(Impl{Exec(s, Kokkos::Impl::ManageStream::yes)});
#else
  impl_ = std::make_unique<Impl>(Impl{Exec()});
#endif
}
Stream::~Stream() = default;
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;

void Stream::fence() const { impl_->exec.fence("mylos::stream::fence"); }

}  // namespace mylos
