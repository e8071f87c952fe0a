// Batches made ahead of their use by threads, in a bounded queue; they come in order whatever the number of threads.
//
//   Loader loader([&](std::int64_t step, std::int64_t m, HostBatch& b) { make_batch(samples, layout, step, m, b); },
//                 layout.micro_batches, first_step, config.prefetch, config.loader_threads);
//   loader.next(batch);          // (first_step, 0), (first_step, 1), ... in order, without end
//   loader.wait_seconds();       // how long the calls to next() have waited so far: the step's data wait
//
// An exception of `make` is thrown by the next() that would have returned its batch, and by each one after it. The
// destructor stops each thread after at most one batch. prefetch 0: no thread, next() calls make. make is called by several
// threads at a time when there are several.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "data/samples.hpp"

namespace mylos::data {

class Loader {
 public:
  using Make = std::function<void(std::int64_t step, std::int64_t micro_batch, HostBatch& out)>;

  Loader(Make make, std::int64_t micro_batches, std::int64_t first_step, std::int64_t prefetch,
         std::int64_t threads = 1);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // Swaps the next batch into `batch`; what it held before is used again, so a steady state allocates nothing.
  void next(HostBatch& batch);
  double wait_seconds() const;  // total of all calls to next()

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mylos::data
