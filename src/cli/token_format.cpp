#include "cli/token_format.hpp"

#include "base/usage.hpp"

namespace mylos::cli {

data::TokenFormat token_format_of(const std::string& format, const std::string& dtype) {
  data::TokenFormat stated;
  try {
    if (!format.empty() && format != "recorded") stated.container = data::container_named(format);
    if (!dtype.empty()) stated.dtype = dtype_of(dtype);
  } catch (const Error& e) {  // a name that does not exist
    usage_error("{}", e.what());
  }
  if (stated.dtype && stated.dtype != DType::u16 && stated.dtype != DType::u32)
    usage_error("tokens are u16 or u32, not {}", dtype);
  return stated;
}

}  // namespace mylos::cli
