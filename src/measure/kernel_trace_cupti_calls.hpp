// CUPTI's calls, from a library that is opened when kernels are first profiled: programs run where there is none.
//
// It is looked for as the loader does, then in the CUDA toolkit that the program was built with; the environment variable MYLOS_CUPTI names the
// file instead. cupti_calls() throws Error that says what was tried; cupti_ok() throws what CUPTI says of a failed call. Both exist only in
// builds with cupti.h (MYLOS_CUPTI_FOLDERS).
#pragma once

#if defined(MYLOS_CUPTI_FOLDERS)
#include <cupti.h>

namespace mylos::measure {

struct CuptiCalls {
  decltype(&cuptiSubscribe) subscribe;
  decltype(&cuptiUnsubscribe) unsubscribe;
  decltype(&cuptiEnableDomain) enable_domain;
  decltype(&cuptiEnableCallback) enable_callback;
  decltype(&cuptiActivityRegisterCallbacks) register_buffers;
  decltype(&cuptiActivityEnable) enable;
  decltype(&cuptiActivityDisable) disable;
  decltype(&cuptiActivityFlushAll) flush;
  decltype(&cuptiActivityGetNextRecord) next_record;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records;
  decltype(&cuptiGetGraphNodeId) node_number;
  decltype(&cuptiGetVersion) version;
  decltype(&cuptiGetResultString) error_text;
};
const CuptiCalls& cupti_calls();
void cupti_ok(CUptiResult result, const char* what);

}  // namespace mylos::measure
#endif
