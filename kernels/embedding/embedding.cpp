#include "kernels/embedding/embedding.hpp"

#include "kernels/detail/checks.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels {
namespace {

void expect_rows(const char* op, const char* name, const Tensor& rows, std::int64_t count, std::int64_t width) {
  expect_float(op, name, rows);
  expect_shape(op, name, rows, {count, width});
  expect_dense(op, name, rows);
}

void check_count(const char* op, std::int64_t tokens) {
  check(tokens <= (std::int64_t(1) << 30), "{}: {} tokens; at most 2^30 at once", op, tokens);
}

}  // namespace

void embedding_forward(const Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  const char* const op = "embedding_forward";
  expect_rows(op, "table", table, -1, -1);
  expect(op, "tokens", tokens, DType::i32, {-1});
  expect_rows(op, "out", out, tokens.extent(0), table.extent(1));
  check_count(op, tokens.extent(0));
  check(out.dtype() == table.dtype(), "embedding_forward: out is {}, expected the table's dtype {}", out.describe(),
        name_of(table.dtype()));
  device::embedding_forward(stream, table, tokens, out);
}

std::int64_t embedding_group_bytes(std::int64_t tokens, std::int64_t vocabulary) {
  const char* const op = "embedding_group_bytes";
  check(tokens >= 0 && vocabulary >= 0 && vocabulary <= INT32_MAX,
        "{}: {} tokens of {} words; neither may be negative, nor words more than {}", op, tokens, vocabulary,
        INT32_MAX);
  check_count(op, tokens);
  return device::embedding_group_bytes(tokens, vocabulary);
}

void embedding_group(const Stream& stream, const Tensor& tokens, std::int64_t vocabulary, const Tensor& groups) {
  const char* const op = "embedding_group";
  expect(op, "tokens", tokens, DType::i32, {-1});
  check_count(op, tokens.extent(0));
  check(vocabulary >= 1 && vocabulary <= INT32_MAX, "{}: a vocabulary of {} words; at least 1 and at most {}", op,
        vocabulary, INT32_MAX);
  expect_workspace(op, groups, embedding_group_bytes(tokens.extent(0), vocabulary), "groups");
  device::embedding_group(stream, tokens, vocabulary, groups);
}

std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t width) {
  check(tokens >= 0 && width >= 0, "embedding_backward_workspace: {} tokens, rows of {}; neither may be negative",
        tokens, width);
  return device::embedding_backward_workspace(tokens, width);
}

void embedding_backward(const Stream& stream, const Tensor& groups, const Tensor& dout, const Tensor& workspace,
                        const Tensor& dtable) {
  const char* const op = "embedding_backward";
  expect_rows(op, "dtable", dtable, -1, -1);
  expect_rows(op, "dout", dout, -1, dtable.extent(1));
  const std::int64_t tokens = dout.extent(0);
  check_count(op, tokens);
  expect_workspace(op, groups, embedding_group_bytes(tokens, dtable.extent(0)), "groups");
  expect_workspace(op, workspace, embedding_backward_workspace(tokens, dtable.extent(1)));
  device::embedding_backward(stream, groups, dout, workspace, dtable);
}

}  // namespace mylos::kernels
