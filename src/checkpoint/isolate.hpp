// Runs work that may crash on hostile input (libhdf5 has memory bugs) in a forked child, and hands its text back.
//
// A crash, an exit, a hang past `seconds` or more memory than 4 GiB become an Error that names `what`; an exception in
// the child is thrown here with the same message, a UsageError as one. The child shares nothing it changes with the parent.
#pragma once

#include <functional>
#include <string>

namespace mylos::checkpoint {

std::string run_isolated(const std::string& what, double seconds, const std::function<std::string()>& work);

// Time that reading a file of this size through may take: 60 s + 20 s a GiB.
double reading_limit_s(const std::string& path);

}  // namespace mylos::checkpoint
