// A row of a packed micro-batch and of what it is widened to. Not for use outside this folder.
#pragma once

#include "kernels/detail/for_each.hpp"

namespace mylos::kernels::device {

struct Results {
  std::int32_t *tokens, *labels, *positions, *document_start;
};

template <class Token>
struct Row {
  const Token* tokens;  // S + 1
  const std::uint32_t *begins, *ignored;
  Results to;

  KOKKOS_FUNCTION Row(const Token* all, const std::uint32_t* all_begins, const std::uint32_t* all_ignored,
                      const Results& results, std::int64_t row, std::int64_t sequence, std::int64_t words)
      : tokens(all + row * (sequence + 1)),
        begins(all_begins + row * words),
        ignored(all_ignored + row * words),
        to{results.tokens + row * sequence, results.labels + row * sequence, results.positions + row * sequence,
           results.document_start + row * sequence} {}
};

}  // namespace mylos::kernels::device
