#include "benchmarks/harness/gate.hpp"

#if defined(MYLOS_CUDA)

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <mutex>

#include "base/error.hpp"
#include "tensor/detail/device.hpp"

namespace mylos::bench {

struct Gate::State {
  std::mutex mutex;
  std::condition_variable changed;
  int closed = 0, opened = 0;  // how often
  bool gave_up = false;

  // In a thread of the driver, which must not call CUDA.
  static void wait(void* data) {
    const std::unique_ptr<std::shared_ptr<State>> own(static_cast<std::shared_ptr<State>*>(data));
    State& s = **own;
    std::unique_lock lock(s.mutex);
    const int turn = s.closed;
    if (!s.changed.wait_for(lock, kMost, [&] { return s.opened >= turn; })) s.gave_up = true;
  }
};

Gate::Gate() : state_(std::make_shared<State>()) {}
Gate::~Gate() { open(); }

void Gate::close(const Stream& stream) {
  {
    const std::scoped_lock lock(state_->mutex);
    ++state_->closed;
    state_->gave_up = false;
  }
  auto own = std::make_unique<std::shared_ptr<State>>(state_);  // the driver's thread may be the last to see it
  const cudaError_t error =
      cudaLaunchHostFunc(static_cast<cudaStream_t>(device::native_stream(stream)), State::wait, own.get());
  check(error == cudaSuccess, "queueing a call of the host failed: {}", cudaGetErrorString(error));
  own.release();
}

void Gate::open() {
  {
    const std::scoped_lock lock(state_->mutex);
    state_->opened = state_->closed;
  }
  state_->changed.notify_all();
}

bool Gate::gave_up() const {
  const std::scoped_lock lock(state_->mutex);
  return state_->gave_up;
}

}  // namespace mylos::bench

#else

namespace mylos::bench {

struct Gate::State {};
Gate::Gate() = default;
Gate::~Gate() = default;
void Gate::close(const Stream&) {}
void Gate::open() {}
bool Gate::gave_up() const { return false; }

}  // namespace mylos::bench

#endif
