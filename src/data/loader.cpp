#include "data/loader.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace mylos::data {

struct Loader::Impl {
  Make make;
  std::int64_t micro_batches, step, prefetch, micro_batch = 0;
  double waited = 0;

  std::mutex mutex;
  std::condition_variable_any changed;
  std::deque<HostBatch> ready;
  std::vector<HostBatch> spare;  // memory of used batches
  std::exception_ptr error;      // stands after the last of `ready`
  std::jthread thread;           // last: joined before the rest goes

  Impl(Make make_, std::int64_t micro_batches_, std::int64_t first_step, std::int64_t prefetch_)
      : make(std::move(make_)), micro_batches(micro_batches_), step(first_step), prefetch(prefetch_) {}

  void make_next(HostBatch& batch) {
    make(step, micro_batch, batch);
    if (++micro_batch == micro_batches) {
      micro_batch = 0;
      ++step;
    }
  }

  void work(std::stop_token stop) {
    for (;;) {
      HostBatch batch;
      {
        std::unique_lock lock(mutex);
        if (!changed.wait(lock, stop, [&] { return std::int64_t(ready.size()) < prefetch; })) return;
        if (!spare.empty()) {
          batch = std::move(spare.back());
          spare.pop_back();
        }
      }
      std::exception_ptr thrown;
      try {
        make_next(batch);
      } catch (...) {
        thrown = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex);
        if (thrown)
          error = thrown;
        else
          ready.push_back(std::move(batch));
      }
      changed.notify_all();
      if (thrown || stop.stop_requested()) return;
    }
  }

  void next(HostBatch& batch) {
    if (error == nullptr && prefetch == 0) {
      try {
        make_next(batch);
      } catch (...) {
        error = std::current_exception();
        throw;
      }
      return;
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return !ready.empty() || error != nullptr; });
    if (ready.empty()) std::rethrow_exception(error);
    std::swap(batch, ready.front());
    spare.push_back(std::move(ready.front()));
    ready.pop_front();
    lock.unlock();
    changed.notify_all();
  }
};

Loader::Loader(Make make, std::int64_t micro_batches, std::int64_t first_step, std::int64_t prefetch) {
  check(make != nullptr, "a loader needs a function that makes batches");
  check(micro_batches >= 1 && first_step >= 0 && prefetch >= 0,
        "a loader of {} micro-batches a step from step {}, {} ahead", micro_batches, first_step, prefetch);
  impl_ = std::make_unique<Impl>(std::move(make), micro_batches, first_step, prefetch);
  if (prefetch > 0)
    impl_->thread = std::jthread([impl = impl_.get()](std::stop_token stop) { impl->work(std::move(stop)); });
}

Loader::~Loader() = default;

void Loader::next(HostBatch& batch) {
  const auto begin = std::chrono::steady_clock::now();
  try {
    impl_->next(batch);
  } catch (...) {
    impl_->waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    throw;
  }
  impl_->waited += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Loader::wait_seconds() const { return impl_->waited; }

}  // namespace mylos::data
