// The few calls of the runtime that touch Kokkos; runtime.cpp checks and counts before it calls them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "tensor/runtime.hpp"

namespace mylos::device {

void start(const RuntimeOptions& options);
void stop();
bool may_start();
DeviceInfo info();
std::string pci_bus_id();  // of this process's GPU, as the driver writes it ("0000:1b:00.0"); empty on a CPU
void* allocate(std::int64_t bytes, const std::string& label);  // nullptr when there is none left
void release(void* p);
void copy_in(const Stream& stream, const void* host, void* device, std::int64_t bytes);
void copy_out(const Stream& stream, const void* device, void* host, std::int64_t bytes);
void copy_within(const Stream& stream, const void* source, void* destination, std::int64_t bytes);
void zero(const Stream& stream, void* p, std::int64_t bytes);
void* native_stream(const Stream& stream);  // the cudaStream_t for vendor libraries; null on a CPU
bool profiler_loaded();                     // a Kokkos tool that hears regions
void push_region(const std::string& name);
void pop_region();

// Hears of Kokkos' kernels and copies as they begin and end on the host, on the thread that queues them; they may nest.
struct KernelObserver {
  virtual ~KernelObserver() = default;
  virtual void kernel_begins(const char* label) = 0;
  virtual void copy_begins(const char* label, std::int64_t bytes) = 0;
  virtual void work_ends() = 0;
};
// nullptr: none any more. False, and nothing is changed, when a Kokkos tool hears them.
bool observe_kernels(KernelObserver* observer);

}  // namespace mylos::device
