#include "model/tiny_model.hpp"

#include <numeric>
#include <random>

namespace mylos::model::test {

using mylos::test::DeviceTensor;
using mylos::test::HostTensor;

HostBatch HostBatch::rows(std::int64_t begin, std::int64_t end) const {
  const auto cut = [&](const std::vector<std::int32_t>& v) {
    return std::vector<std::int32_t>(v.begin() + begin * sequence, v.begin() + end * sequence);
  };
  return {end - begin, sequence, cut(tokens), cut(labels), cut(positions), cut(document_start)};
}

std::int64_t HostBatch::valid() const {
  std::int64_t n = 0;
  for (const std::int32_t label : labels) n += label >= 0;
  return n;
}

HostBatch random_batch(std::int64_t batch, std::int64_t sequence, std::int64_t vocab, bool documents,
                       std::uint64_t seed) {
  HostBatch b{batch, sequence, {}, {}, {}, {}};
  const std::int64_t n = batch * sequence;
  b.tokens = mylos::test::random_ints(n, 0, std::int32_t(vocab), seed);
  b.labels = mylos::test::random_ints(n, 0, std::int32_t(vocab), seed + 1);
  const std::vector<std::int32_t> ignore = mylos::test::random_ints(n, 0, 8, seed + 2),
                                  cut = mylos::test::random_ints(n, 0, 7, seed + 3);
  std::int32_t start = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int32_t at = std::int32_t(i % sequence);
    if (at == 0)
      start = 0;
    else if (documents && cut[std::size_t(i)] == 0)
      start = at;
    if (ignore[std::size_t(i)] == 0) b.labels[std::size_t(i)] = -1;
    b.positions.push_back(at - start);
    b.document_start.push_back(start);
  }
  b.labels[0] = 1;  // at least one is valid
  return b;
}

DeviceBatch to_device(const Stream& stream, const HostBatch& h, bool documents) {
  const std::vector<std::int64_t> shape = {h.batch, h.sequence};
  DeviceBatch d{mylos::test::to_device(stream, h.tokens, shape),
                mylos::test::to_device(stream, h.labels, shape),
                mylos::test::to_device(stream, h.positions, shape),
                mylos::test::to_device(stream, h.document_start, shape),
                {}};
  d.view = {d.tokens.tensor, d.labels.tensor, d.positions.tensor, documents ? d.document_start.tensor : Tensor()};
  return d;
}

ModelConfig tiny_config() {
  return resolve(
      {.dim = 44, .layers = 3, .heads = 6, .kv_heads = 2, .head_size = 10, .ffn = 36, .vocab = 71, .max_seq_len = 64});
}

TinyModel::TinyModel(const ModelConfig& config, const ExecutionConfig& execution)
    : row_loss(mylos::test::empty_device({execution.batch}, DType::f64)),
      grad_scale(mylos::test::empty_device({1}, DType::f32)) {
  Arena plan;
  const Transformer planned(config, execution, plan);
  arena = std::make_unique<Arena>(plan.peak_bytes(), "test model");
  // Nothing may depend on what memory held before.
  const std::vector<std::uint8_t> poison(std::size_t(plan.peak_bytes()), 0xFF);
  const std::int64_t mark = arena->mark();
  upload(stream, poison.data(), plan.peak_bytes(), arena->take(DType::u8, {plan.peak_bytes()}, "poison"));
  stream.fence();
  arena->rewind(mark);
  model = std::make_unique<Transformer>(config, execution, *arena);
}

void TinyModel::initialize(std::uint64_t seed) {
  model->initialize(stream, seed);
  HostTensor w = weights();
  const HostTensor noise = mylos::test::random_normal(w.shape, seed + 7);
  for (const ParameterInfo& p : model->layout().parameters)
    for (std::int64_t i = p.offset; i < p.offset + p.size; ++i) w[i] = p.decay ? 0.2 * noise[i] : 1.0 + 0.2 * noise[i];
  set_weights(w);
}

void TinyModel::set_weights(const HostTensor& flat) {
  const DeviceTensor d = mylos::test::to_device(stream, flat, model->execution().storage);
  copy(stream, d.tensor, model->weights());
  stream.fence();
}

HostTensor TinyModel::weights() const { return mylos::test::to_host(stream, model->weights()); }

static double total(const mylos::test::HostTensor& losses) {
  return std::accumulate(losses.v.begin(), losses.v.end(), 0.0);
}

double TinyModel::forward_backward(const HostBatch& batch, bool documents, float scale, bool first) {
  const DeviceBatch d = to_device(stream, batch, documents);
  if (first) loss = 0;
  upload(stream, &scale, sizeof scale, grad_scale.tensor);
  model->forward_backward(stream, d.view, grad_scale.tensor, first, row_loss.tensor);
  stream.fence();
  return loss += total(mylos::test::to_host(stream, row_loss.tensor));
}

double TinyModel::evaluate(const HostBatch& batch, bool documents) {
  const DeviceBatch d = to_device(stream, batch, documents);
  model->evaluate(stream, d.view, row_loss.tensor);
  stream.fence();
  return total(mylos::test::to_host(stream, row_loss.tensor));
}

HostTensor TinyModel::gradient(const std::string& name) const {
  return mylos::test::to_host(stream, model->layout().window(model->gradients(), model->layout().find(name)));
}

std::vector<std::uint8_t> TinyModel::gradient_bytes() const {
  return mylos::test::raw_bytes(stream, model->gradients());
}

}  // namespace mylos::model::test
