// What both sources of kernel records share: numbers for regions and names, and which region is open.
//
// Regions open and close on the thread that queues steps; only that thread reads which one is open.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "measure/kernel_trace.hpp"
#include "tensor/region.hpp"

namespace mylos::measure {

struct KernelTrace::Impl : RegionObserver {
  Impl();
  ~Impl() override;
  virtual void start() = 0;
  virtual KernelRecords stop() = 0;
  void begin(const Stream& stream, const char* phase, const char* op) override;
  void end(const Stream& stream) override;

  std::uint32_t name_place(const std::string& symbol);  // in all.names

  std::uint32_t region = 0;  // that is open; 0: none
  std::int32_t mark = KernelRecord::kNoMark;
  KernelRecords all{.records = {}, .names = {}, .regions = {RegionName{}}, .source = {}};

 private:
  std::map<std::pair<std::string_view, std::string_view>, std::uint32_t> regions_;  // of literals
  std::unordered_map<std::string, std::uint32_t> names_;                            // by symbol
  std::unordered_map<std::string, std::uint32_t> readable_;
};

std::unique_ptr<KernelTrace::Impl> cupti_trace();
std::unique_ptr<KernelTrace::Impl> host_trace();

}  // namespace mylos::measure
