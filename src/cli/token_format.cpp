#include "cli/token_format.hpp"

#include "base/error.hpp"

namespace mylos::cli {

data::TokenFormat token_format_of(const std::string& format, const std::string& dtype) {
  data::TokenFormat stated;
  if (!format.empty() && format != "recorded") stated.container = data::container_named(format);
  if (!dtype.empty()) {
    stated.dtype = dtype_of(dtype);
    check(stated.dtype == DType::u16 || stated.dtype == DType::u32, "tokens are u16 or u32, not {}", dtype);
  }
  return stated;
}

}  // namespace mylos::cli
