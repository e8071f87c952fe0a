// A small model with a batch of its own, on one device: what the model tests run.
#pragma once

#include <memory>
#include <vector>

#include "model/transformer.hpp"
#include "support/host_tensor.hpp"

namespace mylos::model::test {

// Micro-batch rows on the host; document starts within each row.
struct HostBatch {
  std::int64_t batch, sequence;
  std::vector<std::int32_t> tokens, labels, positions, document_start;
  HostBatch rows(std::int64_t begin, std::int64_t end) const;
  std::int64_t valid() const;
};
// Random tokens; about one label in eight is ignored; `documents` cuts each row at random places.
HostBatch random_batch(std::int64_t batch, std::int64_t sequence, std::int64_t vocab, bool documents,
                       std::uint64_t seed);

struct DeviceBatch {
  mylos::test::DeviceTensor tokens, labels, positions, document_start;
  Batch view;
};
DeviceBatch to_device(const Stream& stream, const HostBatch& host, bool documents);

// Sizes that are no multiples of a tile.
ModelConfig tiny_config();

// A transformer with exactly the memory it planned.
struct TinyModel {
  TinyModel(const ModelConfig& config, const ExecutionConfig& execution);
  // Sets weights: initial ones, made larger so that every gradient counts, or those given (flat).
  void initialize(std::uint64_t seed);
  void set_weights(const mylos::test::HostTensor& flat);
  mylos::test::HostTensor weights() const;
  double forward_backward(const HostBatch& batch, bool documents, float scale, bool first);
  double evaluate(const HostBatch& batch, bool documents);
  mylos::test::HostTensor gradient(const std::string& name) const;
  std::vector<std::uint8_t> gradient_bytes() const;

  Stream stream;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Transformer> model;
  // Sum of the losses of all micro-batches since the last `first`, as the step adds them up.
  double loss = 0;
  mylos::test::DeviceTensor row_loss;    // [B] f64
  mylos::test::DeviceTensor grad_scale;  // [1] f32
};

}  // namespace mylos::model::test
