#include <chrono>
#include <iostream>

#include "base/error.hpp"
#include "cli/commands.hpp"
#include "cli/token_format.hpp"
#include "data/document_index.hpp"
#include "data/token_source.hpp"

namespace mylos::cli {

int data_index(const DataIndexArguments& arguments) {
  const data::TokenFormat format = token_format_of(arguments.format, arguments.dtype);
  for (const std::string& path : data::expand_files(arguments.files)) {
    const auto start = std::chrono::steady_clock::now();
    const data::TokenFile file(path, format);
    std::int64_t end = arguments.end_token.value_or(-1);
    if (!arguments.end_token && file.sidecar()) end = file.sidecar()->end_of_text;
    check(end >= 0 || file.indexed(),
          "'{}': its sidecar names no end_of_text; say which token ends a document with --end-token", path);
    check(size_of(file.dtype()) > 2 || end < 1 << 16,
          "'{}': --end-token {} is not below 65536, the bound of its u16 tokens", path, end);
    const std::int64_t documents = data::write_document_index(file, end, arguments.threads);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::cout << fmt::format("{}: {} documents end with token {}, {:.2f} GB/s", data::document_index_path(path),
                             documents, end, double(file.bytes()) / seconds / 1e9)
              << std::endl;
  }
  return kDone;
}

}  // namespace mylos::cli
