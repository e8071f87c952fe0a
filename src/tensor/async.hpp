// What the host needs to run ahead of the device: events, host memory that copies without waiting, recorded work.
//
// On the CPU work is done when the call returns: events carry wall time, copies are plain, and Graph::available() is
// false. Errors of the device are thrown as Error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "tensor/runtime.hpp"

namespace mylos {

// A point in a stream's queue.
class Event {
 public:
  Event();
  ~Event();
  Event(Event&&) noexcept;
  Event& operator=(Event&&) noexcept;
  void record(const Stream& stream);  // again: the point moves
  void wait() const;                  // until the device has come to it; at once when never recorded
  bool done() const;
  // Device time between two points that are done, in seconds; on a GPU to about a microsecond.
  double seconds_since(const Event& earlier) const;

 private:
  friend void wait_for(const Stream& stream, const Event& event);
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What is queued on the stream from here on waits for the event; the host does not.
void wait_for(const Stream& stream, const Event& event);

// Host memory that the device reads and writes by itself (page-locked on a GPU).
class HostBuffer {
 public:
  HostBuffer(std::int64_t bytes, const char* label);
  ~HostBuffer();
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  void* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Queue a copy between a dense tensor and the host buffer at `offset` bytes. The buffer's part must be left alone until
// the stream has passed it (an Event tells).
void queue_upload(const Stream& stream, const HostBuffer& host, std::int64_t offset, const Tensor& device);
void queue_download(const Stream& stream, const Tensor& device, const HostBuffer& host, std::int64_t offset);

// Device work recorded once and queued again with one call. Addresses and host numbers are those of the recording; what
// changes from launch to launch lies in device memory.
class Graph {
 public:
  static bool available();
  // Records what `work` queues on the stream, without doing it. The same work must have been done once before, so that
  // libraries are loaded and plans are made; it must not wait for the device. Replays read host memory again that the
  // work copies from. Throws Error when the work waits, or copies from page-locked memory: its owners use it in turns.
  Graph(const Stream& stream, const std::function<void()>& work);
  ~Graph();
  Graph(Graph&&) noexcept;
  Graph& operator=(Graph&&) noexcept;
  void launch(const Stream& stream) const;
  std::int64_t nodes() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mylos
