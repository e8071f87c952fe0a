#include "data/loader.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace mylos::data {

// Batches have numbers: number n is micro-batch n mod micro_batches of step first_step + n / micro_batches. Threads take
// numbers in order, fill them at the same time, and hand them over by number.
struct Loader::Impl {
  struct Made {
    HostBatch batch;
    std::exception_ptr error;
  };

  Make make;
  std::int64_t micro_batches, first_step, prefetch;
  double waited = 0;

  std::mutex mutex;
  std::condition_variable_any changed;
  std::int64_t taken = 0, given = 0;  // numbers
  bool broken = false;                // a number that was taken failed: no later one is begun
  std::exception_ptr error;           // of the last number given: there is none after it
  std::map<std::int64_t, Made> ready;
  std::vector<HostBatch> spare;       // memory of used batches
  std::vector<std::jthread> threads;  // last: joined before the rest goes

  Impl(Make make_, std::int64_t micro_batches_, std::int64_t first_step_, std::int64_t prefetch_)
      : make(std::move(make_)), micro_batches(micro_batches_), first_step(first_step_), prefetch(prefetch_) {}

  std::exception_ptr made(std::int64_t number, HostBatch& batch) const {
    try {
      make(first_step + number / micro_batches, number % micro_batches, batch);
      return nullptr;
    } catch (...) {
      return std::current_exception();
    }
  }

  void work(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      Made next;
      std::int64_t number;
      {
        std::unique_lock lock(mutex);
        if (!changed.wait(lock, stop, [&] { return broken || taken < given + prefetch; }) || broken) return;
        number = taken++;
        if (!spare.empty()) {
          next.batch = std::move(spare.back());
          spare.pop_back();
        }
      }
      next.error = made(number, next.batch);
      {
        const std::lock_guard lock(mutex);
        broken = broken || next.error != nullptr;
        ready.emplace(number, std::move(next));
      }
      changed.notify_all();
    }
  }

  void next(HostBatch& batch) {
    if (error != nullptr) std::rethrow_exception(error);
    if (prefetch == 0) {
      error = made(given++, batch);
      if (error != nullptr) std::rethrow_exception(error);
      return;
    }
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return ready.contains(given); });
    Made first = std::move(ready.extract(given++).mapped());
    error = first.error;
    if (error != nullptr) std::rethrow_exception(error);
    std::swap(batch, first.batch);
    spare.push_back(std::move(first.batch));
    lock.unlock();
    changed.notify_all();
  }
};

Loader::Loader(Make make, std::int64_t micro_batches, std::int64_t first_step, std::int64_t prefetch,
               std::int64_t threads) {
  check(make != nullptr, "a loader needs a function that makes batches");
  check(micro_batches >= 1 && first_step >= 0 && prefetch >= 0 && threads >= 1,
        "a loader of {} micro-batches a step from step {}, {} ahead, with {} threads", micro_batches, first_step,
        prefetch, threads);
  impl_ = std::make_unique<Impl>(std::move(make), micro_batches, first_step, prefetch);
  for (std::int64_t t = 0; t < std::min(threads, prefetch); ++t)
    impl_->threads.emplace_back([impl = impl_.get()](const std::stop_token& stop) { impl->work(stop); });
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
