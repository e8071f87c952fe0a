// Device time of every op of a step, by the regions it is marked with.
//
//   OpClock clock; clock.listen();
//   ... queue steps ...; stream.fence(); clock.collect();
//   for (const OpTime& t : clock.times()) ...
//
// Each region costs two events on its stream (about 2 microseconds of host time on a GPU). A time runs from the moment the device has
// done all that was queued before the region to the moment it has done the region: where the host is late, waiting for it is in there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/async.hpp"
#include "tensor/region.hpp"

namespace mylos::measure {

struct OpTime {
  std::string phase, op;
  std::int64_t calls = 0;
  double seconds = 0;  // of all calls
};

class OpClock final : public RegionObserver {
 public:
  OpClock() = default;
  ~OpClock() override;
  void listen();  // until the clock ends; one clock at a time
  // Makes the events of this many regions beforehand, so that none is made while steps are queued.
  void reserve(std::int64_t regions);
  // Adds up what was recorded since the last call; all of it must be done on the device.
  void collect();
  void clear();  // forgets times and records, keeps the events
  std::int64_t recorded() const { return std::int64_t(used_); }
  const std::vector<OpTime>& times() const { return times_; }

  void begin(const Stream& stream, const char* phase, const char* op) override;
  void end(const Stream& stream) override;

 private:
  struct Mark {
    std::size_t op = 0;  // in times_
    Event begin, end;
  };
  std::vector<Mark> marks_;  // of which the first used_ are recorded
  std::size_t used_ = 0;
  std::vector<OpTime> times_;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> places_;  // of literals
  bool listening_ = false;
};

}  // namespace mylos::measure
