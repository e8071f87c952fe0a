#include "measure/kernel_trace.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "base/error.hpp"
#include "measure/kernel_trace_impl.hpp"
#include "tensor/runtime.hpp"

namespace mylos::measure {
namespace {

constexpr std::size_t kMostLetters = 200;

std::string demangled(const std::string& symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 && text != nullptr ? text : symbol;
  std::free(text);
  return name;
}

void remove_all(std::string& text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
}

// The first template argument that follows `at`, the place after a '<'.
std::string first_argument(const std::string& text, std::size_t at) {
  int depth = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const char c = text[i];
    if (depth == 0 && (c == ',' || c == '>')) return text.substr(at, i - at);
    if (c == '<' || c == '(') ++depth;
    if (c == '>' || c == ')') --depth;
  }
  return text.substr(at);
}

// Up to the parenthesis that opens a function's arguments: the first outside of template arguments.
std::string without_arguments(const std::string& text) {
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '<') ++depth;
    if (text[i] == '>') --depth;
    if (text[i] == '(' && depth == 0) return text.substr(0, i);
  }
  return text;
}

}  // namespace

const char* name_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::kernel:
      return "kernel";
    case KernelKind::copy:
      return "copy";
    case KernelKind::set:
      return "set";
    case KernelKind::host:
      break;
  }
  return "host";
}

std::string RegionName::label() const { return empty() ? "" : "mylos::" + phase + "::" + op; }

std::string readable_kernel_name(const std::string& symbol) {
  std::string name = demangled(symbol);
  remove_all(name, "(anonymous namespace)::");
  const bool kokkos = name.find("Kokkos::Impl::") != std::string::npos;
  name = without_arguments(name);
  if (name.starts_with("void ")) name.erase(0, 5);
  for (const std::string_view launch : {"ParallelFor<", "ParallelReduce<", "ParallelScan<"}) {
    const std::size_t at = kokkos ? name.find(launch) : std::string::npos;
    if (at == std::string::npos) continue;
    name = first_argument(name, at + launch.size());
    break;
  }
  if (name.size() > kMostLetters) name = name.substr(0, kMostLetters - 3) + "...";
  return name;
}

KernelTrace::Impl::Impl() {
  RegionObserver* const before = observe_regions(this);
  if (before == nullptr) return;
  observe_regions(before);
  fail("regions are observed already; a trace of kernels and an op clock cannot be there at once");
}

KernelTrace::Impl::~Impl() { observe_regions(nullptr); }

void KernelTrace::Impl::begin(const Stream&, const char* phase, const char* op) {
  const auto [place, is_new] = regions_.try_emplace({phase, op}, std::uint32_t(all.regions.size()));
  if (is_new) all.regions.push_back({phase, op});
  region = place->second;
}

void KernelTrace::Impl::end(const Stream&) { region = 0; }

std::uint32_t KernelTrace::Impl::name_place(const std::string& symbol) {
  const auto known = names_.find(symbol);
  if (known != names_.end()) return known->second;
  const std::string name = readable_kernel_name(symbol);
  const auto [place, is_new] = readable_.try_emplace(name, std::uint32_t(all.names.size()));
  if (is_new) all.names.push_back(name);
  return names_.emplace(symbol, place->second).first->second;
}

KernelTrace::KernelTrace() : impl_(device_info().is_gpu ? cupti_trace() : host_trace()) {}
KernelTrace::~KernelTrace() = default;

void KernelTrace::start() {
  impl_->all.records.clear();
  impl_->mark = KernelRecord::kNoMark;
  impl_->start();
}

void KernelTrace::mark(std::int32_t number) { impl_->mark = number; }

KernelRecords KernelTrace::stop() {
  KernelRecords r = impl_->stop();
  std::stable_sort(r.records.begin(), r.records.end(), [](const KernelRecord& a, const KernelRecord& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns < b.end_ns;
  });
  return r;
}

}  // namespace mylos::measure
