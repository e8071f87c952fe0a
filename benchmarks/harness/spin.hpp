// Work of known length, by which the harness proves itself: nothing at all, and a wait on the clock of whatever runs it.
#pragma once

#include "tensor/runtime.hpp"

namespace mylos::bench {

void null_kernel(const Stream& stream);
// One thread that looks at the device's clock (globaltimer; the steady clock on a CPU) until so many nanoseconds have passed.
void spin(const Stream& stream, long long nanoseconds);

}  // namespace mylos::bench
