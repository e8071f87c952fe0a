#include "tensor/async.hpp"

#include <chrono>
#include <cstdlib>
#include <exception>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "tensor/detail/device.hpp"

#if defined(MYLOS_CUDA)
#include <cuda_runtime_api.h>
#endif

namespace mylos {
namespace {

#if defined(MYLOS_CUDA)
void ok(cudaError_t error, const char* what) {
  check(error == cudaSuccess, "{} failed: {}", what, cudaGetErrorString(error));
}
cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(device::native_stream(stream)); }
#endif

void check_part(const char* op, const HostBuffer& host, std::int64_t offset, const Tensor& device) {
  expect_dense(op, "tensor", device);
  check(offset >= 0 && device.bytes() <= host.bytes() - offset, "{}: {} at byte {} of a host buffer of {} bytes", op,
        device.describe(), offset, host.bytes());
}

}  // namespace

#if defined(MYLOS_CUDA)

struct Event::Impl {
  cudaEvent_t event = nullptr;
  bool recorded = false;
};

Event::Event() : impl_(std::make_unique<Impl>()) { ok(cudaEventCreate(&impl_->event), "making a CUDA event"); }
Event::~Event() {
  if (impl_) cudaEventDestroy(impl_->event);
}
void Event::record(const Stream& stream) {
  ok(cudaEventRecord(impl_->event, native(stream)), "recording a CUDA event");
  impl_->recorded = true;
}
void Event::wait() const {
  if (impl_->recorded) ok(cudaEventSynchronize(impl_->event), "work on the device");
}
bool Event::done() const {
  if (!impl_->recorded) return true;
  const cudaError_t state = cudaEventQuery(impl_->event);
  if (state != cudaErrorNotReady) ok(state, "work on the device");
  return state == cudaSuccess;
}
double Event::seconds_since(const Event& earlier) const {
  float milliseconds = 0.0f;
  ok(cudaEventElapsedTime(&milliseconds, earlier.impl_->event, impl_->event), "the time between two events");
  return double(milliseconds) * 1e-3;
}

void wait_for(const Stream& stream, const Event& event) {
  if (event.impl_->recorded) ok(cudaStreamWaitEvent(native(stream), event.impl_->event), "waiting for a CUDA event");
}

HostBuffer::HostBuffer(std::int64_t bytes, const char* label) : bytes_(bytes) {
  check(bytes > 0, "host buffer '{}' of {} bytes: a buffer has at least one byte", label, bytes);
  const cudaError_t error = cudaMallocHost(&data_, std::size_t(bytes));
  check(error == cudaSuccess, "{} bytes of page-locked host memory for '{}' cannot be had: {}", bytes, label,
        cudaGetErrorString(error));
}
HostBuffer::~HostBuffer() { cudaFreeHost(data_); }

struct Graph::Impl {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  std::size_t nodes = 0;
  ~Impl() {
    if (exec != nullptr) cudaGraphExecDestroy(exec);
    if (graph != nullptr) cudaGraphDestroy(graph);
  }
};

namespace {

void check_nodes(cudaGraph_t graph, std::size_t count) {
  std::vector<cudaGraphNode_t> nodes(count);
  ok(cudaGraphGetNodes(graph, nodes.data(), &count), "reading a CUDA graph");
  for (const cudaGraphNode_t node : nodes) {
    cudaGraphNodeType type;
    ok(cudaGraphNodeGetType(node, &type), "reading a CUDA graph");
    if (type != cudaGraphNodeTypeMemcpy) continue;
    cudaMemcpy3DParms copy{};
    ok(cudaGraphMemcpyNodeGetParams(node, &copy), "reading a CUDA graph");
    cudaPointerAttributes source{};
    // cuDNN copies constants of a plan from ordinary memory that it keeps as long as the graph lives.
    const bool pinned = copy.srcPtr.ptr != nullptr &&
                        cudaPointerGetAttributes(&source, copy.srcPtr.ptr) == cudaSuccess &&
                        source.type == cudaMemoryTypeHost;
    check(!pinned, "the recorded work copies from page-locked host memory; upload before the graph is launched");
  }
}

}  // namespace

bool Graph::available() { return true; }

Graph::Graph(const Stream& stream, const std::function<void()>& work) : impl_(std::make_unique<Impl>()) {
  ok(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal), "recording a CUDA graph");
  try {
    work();
  } catch (const std::exception& e) {
    // The stream must leave its recording state whatever went wrong in it.
    cudaGraph_t broken = nullptr;
    cudaStreamEndCapture(native(stream), &broken);
    if (broken != nullptr) cudaGraphDestroy(broken);
    cudaGetLastError();
    fail("recording a CUDA graph failed: {}", e.what());
  }
  ok(cudaStreamEndCapture(native(stream), &impl_->graph), "recording a CUDA graph (the work waits for the device?)");
  ok(cudaGraphGetNodes(impl_->graph, nullptr, &impl_->nodes), "reading a CUDA graph");
  check_nodes(impl_->graph, impl_->nodes);
  ok(cudaGraphInstantiate(&impl_->exec, impl_->graph, 0), "preparing a CUDA graph");
}
void Graph::launch(const Stream& stream) const {
  ok(cudaGraphLaunch(impl_->exec, native(stream)), "launching a CUDA graph");
}
std::int64_t Graph::nodes() const { return std::int64_t(impl_->nodes); }

#else

struct Event::Impl {
  std::chrono::steady_clock::time_point time{};
};

Event::Event() : impl_(std::make_unique<Impl>()) {}
Event::~Event() = default;
void Event::record(const Stream&) { impl_->time = std::chrono::steady_clock::now(); }
void Event::wait() const {}
bool Event::done() const { return true; }
double Event::seconds_since(const Event& earlier) const {
  return std::chrono::duration<double>(impl_->time - earlier.impl_->time).count();
}

void wait_for(const Stream&, const Event&) {}

HostBuffer::HostBuffer(std::int64_t bytes, const char* label) : bytes_(bytes) {
  check(bytes > 0, "host buffer '{}' of {} bytes: a buffer has at least one byte", label, bytes);
  data_ = std::malloc(std::size_t(bytes));
  check(data_ != nullptr, "{} bytes of host memory for '{}' cannot be had", bytes, label);
}
HostBuffer::~HostBuffer() { std::free(data_); }

struct Graph::Impl {};

bool Graph::available() { return false; }
Graph::Graph(const Stream&, const std::function<void()>&) {
  fail("work can be recorded on a GPU only; ask Graph::available()");
}
void Graph::launch(const Stream&) const {}
std::int64_t Graph::nodes() const { return 0; }

#endif

Event::Event(Event&&) noexcept = default;
Event& Event::operator=(Event&& o) noexcept {
  std::swap(impl_, o.impl_);
  return *this;
}
Graph::~Graph() = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;

void queue_upload(const Stream& stream, const HostBuffer& host, std::int64_t offset, const Tensor& device) {
  check_part("queue_upload", host, offset, device);
  device::copy_in(stream, static_cast<const char*>(host.data()) + offset, device.data(), device.bytes());
}
void queue_download(const Stream& stream, const Tensor& device, const HostBuffer& host, std::int64_t offset) {
  check_part("queue_download", host, offset, device);
  device::copy_out(stream, device.data(), static_cast<char*>(host.data()) + offset, device.bytes());
}

}  // namespace mylos
