#include "measure/kernel_trace_cupti_calls.hpp"

#if defined(MYLOS_CUPTI_FOLDERS)
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/error.hpp"

namespace mylos::measure {
namespace {

void* open_library() {
  std::string tried;
  const auto open = [&](const std::string& name) {
    void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) tried += (tried.empty() ? "" : "; ") + std::string(dlerror());
    return library;
  };
  if (const char* named = std::getenv("MYLOS_CUPTI"); named != nullptr && *named != '\0') {
    void* const library = open(named);
    check(library != nullptr, "MYLOS_CUPTI is '{}', which cannot be opened: {}", named, tried);
    return library;
  }
  const std::string name = "libcupti.so." + std::to_string(CUPTI_API_VERSION / 10000);
  if (void* const library = open(name)) return library;
  const std::string folders = MYLOS_CUPTI_FOLDERS;
  for (std::size_t begin = 0; begin < folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    if (void* const library = open(folders.substr(begin, end - begin) + "/" + name)) return library;
    begin = end + 1;
  }
  fail("profiling kernels needs CUPTI, which cannot be opened; install it, or name the file in MYLOS_CUPTI ({})",
       tried);
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  check(function != nullptr, "this CUPTI has no {}; the one of CUDA {} or newer is needed", name,
        CUPTI_API_VERSION / 10000);
}

}  // namespace

const CuptiCalls& cupti_calls() {
  static const CuptiCalls all = [] {
    void* const library = open_library();  // never closed: the driver calls into it
    CuptiCalls c{};
    find(library, "cuptiSubscribe", c.subscribe);
    find(library, "cuptiUnsubscribe", c.unsubscribe);
    find(library, "cuptiEnableDomain", c.enable_domain);
    find(library, "cuptiEnableCallback", c.enable_callback);
    find(library, "cuptiActivityRegisterCallbacks", c.register_buffers);
    find(library, "cuptiActivityEnable", c.enable);
    find(library, "cuptiActivityDisable", c.disable);
    find(library, "cuptiActivityFlushAll", c.flush);
    find(library, "cuptiActivityGetNextRecord", c.next_record);
    find(library, "cuptiActivityGetNumDroppedRecords", c.dropped_records);
    find(library, "cuptiGetGraphNodeId", c.node_number);
    find(library, "cuptiGetVersion", c.version);
    find(library, "cuptiGetResultString", c.error_text);
    return c;
  }();
  return all;
}

void cupti_ok(CUptiResult result, const char* what) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cupti_calls().error_text(result, &text);
  fail("{} failed: {}{}", what, text != nullptr ? text : "an unknown error of CUPTI",
       result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
           ? "; another profiler is attached to this process, end it or profile with it alone"
           : "");
}

}  // namespace mylos::measure
#endif
