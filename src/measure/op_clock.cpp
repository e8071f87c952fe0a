#include "measure/op_clock.hpp"

#include "base/error.hpp"

namespace mylos::measure {

OpClock::~OpClock() {
  if (listening_) observe_regions(nullptr);
}

void OpClock::listen() {
  RegionObserver* const before = observe_regions(this);
  check(before == nullptr || before == this, "another observer of regions is there; one op clock at a time");
  listening_ = true;
}

void OpClock::reserve(std::int64_t regions) {
  if (std::size_t(regions) > marks_.size()) marks_.resize(std::size_t(regions));
}

void OpClock::collect() {
  for (std::size_t i = 0; i < used_; ++i) {
    OpTime& t = times_[marks_[i].op];
    ++t.calls;
    t.seconds += marks_[i].end.seconds_since(marks_[i].begin);
  }
  used_ = 0;
}

void OpClock::clear() {
  used_ = 0;
  times_.clear();
  places_.clear();
}

void OpClock::begin(const Stream& stream, const char* phase, const char* op) {
  if (used_ == marks_.size()) marks_.emplace_back();
  const auto [place, is_new] = places_.try_emplace({phase, op}, times_.size());
  if (is_new) times_.push_back({phase, op});
  marks_[used_].op = place->second;
  marks_[used_].begin.record(stream);
}

void OpClock::end(const Stream& stream) { marks_[used_++].end.record(stream); }

}  // namespace mylos::measure
