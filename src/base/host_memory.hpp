// Memory of the host that this process may still take.
#pragma once

#include <cstdint>

namespace mylos {

// Bytes: the least of MemAvailable and what the limits of the process' control groups leave. -1 when neither can be read.
std::int64_t available_host_memory();

}  // namespace mylos
