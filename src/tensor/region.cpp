#include "tensor/region.hpp"

#include <string>
#include <utility>

#include "tensor/detail/device.hpp"

namespace mylos {
namespace {
RegionObserver* g_observer = nullptr;
bool g_profiler = false;
}  // namespace

bool Region::heard_ = false;

RegionObserver* observe_regions(RegionObserver* next) {
  RegionObserver* const before = std::exchange(g_observer, next);
  Region::heard_ = g_observer || g_profiler;
  return before;
}

void Region::profiler_is_loaded(bool loaded) {
  g_profiler = loaded;
  heard_ = g_observer || g_profiler;
}

void Region::begin(const Stream& stream, const char* phase, const char* op) {
  stream_ = &stream;
  if (g_profiler) device::push_region("mylos::" + std::string(phase) + "::" + op);
  if (g_observer) g_observer->begin(stream, phase, op);
}

void Region::end() {
  if (g_observer) g_observer->end(*stream_);
  if (g_profiler) device::pop_region();
}

}  // namespace mylos
