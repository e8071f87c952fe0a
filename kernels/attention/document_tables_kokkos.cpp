#include "kernels/attention/document_tables.hpp"
#include "tensor/detail/exec.hpp"

namespace mylos::kernels::attention {
namespace {

constexpr int kThreads = kOnGpu ? 1024 : 1;
using Policy = Kokkos::TeamPolicy<Exec, Kokkos::LaunchBounds<kThreads, 1>>;
using Team = Policy::member_type;

// One team: a thread has neighbouring tokens, counts the documents of each class that begin among them, and knows from
// the counts of the threads before it which places they take.
struct WriteTables {
  const std::int32_t* start;
  std::int64_t sequence, tokens;
  DocumentTables tables;
  char* memory;

  KOKKOS_FUNCTION int class_of(std::int64_t length) const {
    int c = 0;
    while (c < tables.count && length > tables.classes[std::size_t(c)].longest) ++c;
    if (c == tables.count) Kokkos::abort("attention: a document is longer than its bucket says");
    return c;
  }
  // From the first token t of a document to the first of the next, or the end of the row.
  KOKKOS_FUNCTION std::int64_t length(std::int64_t t) const {
    std::int64_t inside = t, beyond = t - t % sequence + sequence;
    while (beyond - inside > 1) {
      const std::int64_t middle = (inside + beyond) / 2;
      (start[middle] == start[t] ? inside : beyond) = middle;
    }
    return beyond - t;
  }
  KOKKOS_FUNCTION void write(const DocumentClass& c, std::int64_t place, std::int64_t token,
                             std::int64_t length) const {
    if (place < c.room) reinterpret_cast<std::int32_t*>(memory + c.lengths)[place] = std::int32_t(length);
    auto* const offsets = reinterpret_cast<std::int64_t*>(memory + c.offsets);
    for (int w = 0; w < kRowWidths; ++w) offsets[w * (c.room + 1) + place] = token * tables.widths[std::size_t(w)];
  }

  // f(token, length) of each document that begins among these tokens, in order.
  template <class F>
  KOKKOS_FUNCTION void each_document(std::int64_t first, std::int64_t end, const F& f) const {
    std::int64_t last = -1, place = first % sequence;
    for (std::int64_t t = first; t < end; ++t) {
      if (start[t] == place) {
        if (last >= 0) f(last, t - last);
        last = t;
      }
      if (++place == sequence) place = 0;
    }
    if (last >= 0) f(last, length(last));
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const std::int64_t each = (tokens + kThreads - 1) / kThreads, first = each * team.team_rank();
    const std::int64_t end = first + each < tokens ? first + each : tokens;
    std::int32_t place[kLengthClasses] = {};
    each_document(first, end, [&](std::int64_t, std::int64_t n) { ++place[class_of(n)]; });
    for (int c = 0; c < tables.count; ++c) {
      const DocumentClass& of = tables.classes[std::size_t(c)];
      const std::int32_t own = place[c];
      std::int32_t all = own;
      place[c] = team.team_scan(own);
      team.team_reduce(Kokkos::Sum<std::int32_t>(all));
      if (all > of.room) Kokkos::abort("attention: more documents than their bucket has room for");
      // Places that no document takes: none long, behind all others.
      for (std::int64_t p = all + team.team_rank(); p <= of.room; p += kThreads) write(of, p, tokens, 0);
    }
    each_document(first, end, [&](std::int64_t t, std::int64_t n) {
      const int c = class_of(n);
      write(tables.classes[std::size_t(c)], place[c]++, t, n);
    });
  }
};

}  // namespace

void write_tables(const Stream& stream, const AttentionShape& shape, const std::int32_t* document_start,
                  const DocumentTables& tables, void* memory) {
  Kokkos::parallel_for(
      "mylos::attention::documents", as_arguments(Policy(exec_of(stream), 1, kThreads)),
      WriteTables{document_start, shape.sequence, shape.batch * shape.sequence, tables, static_cast<char*>(memory)});
}

}  // namespace mylos::kernels::attention
