#include "kernels/embedding/embedding.hpp"

#include "kernels/detail/checks.hpp"
#include "kernels/embedding/embedding_device.hpp"

namespace mylos::kernels {
namespace {

void expect_operands(const char* op, const Tensor& table, const Tensor& tokens, const Tensor& rows,
                     const char* rows_name) {
  expect_float(op, "table", table);
  expect_shape(op, "table", table, {-1, -1});
  expect_dense(op, "table", table);
  expect(op, "tokens", tokens, DType::i32, {-1});
  expect_float(op, rows_name, rows);
  expect_shape(op, rows_name, rows, {tokens.extent(0), table.extent(1)});
  expect_dense(op, rows_name, rows);
  check(tokens.extent(0) <= (std::int64_t(1) << 30), "{}: {} tokens; at most 2^30 at once", op, tokens.extent(0));
}

}  // namespace

void embedding_forward(const Stream& stream, const Tensor& table, const Tensor& tokens, const Tensor& out) {
  expect_operands("embedding_forward", table, tokens, out, "out");
  check(out.dtype() == table.dtype(), "embedding_forward: out is {}, expected the table's dtype {}", out.describe(),
        name_of(table.dtype()));
  device::embedding_forward(stream, table, tokens, out);
}

std::int64_t embedding_backward_workspace(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width) {
  check(tokens >= 0 && vocabulary >= 0 && width >= 0,
        "embedding_backward_workspace: {} tokens, table [{}, {}]; none may be negative", tokens, vocabulary, width);
  return device::embedding_backward_workspace(tokens, vocabulary, width);
}

void embedding_backward(const Stream& stream, const Tensor& tokens, const Tensor& dout, const Tensor& workspace,
                        const Tensor& dtable) {
  expect_operands("embedding_backward", dtable, tokens, dout, "dout");
  expect_workspace("embedding_backward", workspace,
                   embedding_backward_workspace(tokens.extent(0), dtable.extent(0), dtable.extent(1)));
  device::embedding_backward(stream, tokens, dout, workspace, dtable);
}

}  // namespace mylos::kernels
