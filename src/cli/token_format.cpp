#include "cli/token_format.hpp"

#include "base/usage.hpp"

namespace mylos::cli {

data::TokenFormat token_format_of(const std::string& format, const std::string& dtype) {
  data::TokenFormat stated;
  try {
    if (!format.empty() && format != "recorded") stated.container = data::container_named(format);
  } catch (const Error& e) {  // a name that does not exist
    usage_error("{}", e.what());
  }
  if (dtype.empty()) return stated;
  if (dtype != "u16" && dtype != "u32") usage_error("--dtype is '{}'; tokens are u16 or u32", dtype);
  stated.dtype = dtype_of(dtype);
  return stated;
}

}  // namespace mylos::cli
