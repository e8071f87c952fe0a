// The device side of a process: start-up, streams, device memory and copies, without naming Kokkos or CUDA.
//
// One Runtime lives for the whole program (it starts Kokkos and stops it). A Stream is an ordered queue of device work;
// on the CPU work is done when the call returns, on a GPU only after fence(). Device memory is host memory on the CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "tensor/tensor.hpp"

namespace mylos {

inline constexpr int kMostThreads = 512;  // CPU threads that Kokkos has room for

struct RuntimeOptions {
  int threads = 0;    // CPU threads; 0: OMP_NUM_THREADS, else all cores the process may use; at most kMostThreads
  int device_id = 0;  // GPU of this process
};

class Runtime {
 public:
  explicit Runtime(const RuntimeOptions& options = {});
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;
};

struct DeviceInfo {
  std::string backend;        // "OpenMP", "Cuda", "Serial"
  std::string name;           // "NVIDIA H200", or the CPU's model name
  std::int64_t memory_bytes;  // of the device
  int concurrency;            // threads
  bool is_gpu;
};
DeviceInfo device_info();

class Stream {
 public:
  Stream();  // a new queue on a GPU; the one and only on a CPU
  ~Stream();
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  void fence() const;  // waits until everything queued so far is done

  struct Impl;  // defined in tensor/detail/exec.hpp
  const Impl& impl() const { return *impl_; }

 private:
  std::unique_ptr<Impl> impl_;
};

// Device memory that frees itself, aligned to kAlignment bytes. Throws Error (with the bytes asked for, in use and present) when full.
class Buffer {
 public:
  static constexpr std::int64_t kAlignment = 256;  // what vendor libraries want of a workspace
  Buffer() = default;
  Buffer(std::int64_t bytes, const char* label);
  ~Buffer();
  Buffer(Buffer&& o) noexcept;
  Buffer& operator=(Buffer&& o) noexcept;
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* allocated_ = nullptr;  // what the device gave; data_ is the first aligned address in it
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// What all Buffers hold now, and the most they held at once since the last reset_peak().
struct DeviceMemory {
  std::int64_t current_bytes, peak_bytes, allocations;
};
DeviceMemory device_memory();
void reset_device_memory_peak();

// Copies between host and device, ordered on the stream; the download has arrived when it returns.
// Tensors must be dense; `bytes` must be the tensor's.
void upload(const Stream& stream, const void* host, std::int64_t bytes, const Tensor& device);
void download(const Stream& stream, const Tensor& device, void* host, std::int64_t bytes);
void copy(const Stream& stream, const Tensor& source, const Tensor& destination);  // same dtype and size
void fill_zero(const Stream& stream, const Tensor& t);

}  // namespace mylos
