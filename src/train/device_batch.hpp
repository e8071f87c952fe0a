// The device side of a micro-batch: the block of the host batch is copied on a stream of its own, behind the work of the
// batches before it, and widened on the stream that trains.
#pragma once

#include <array>
#include <cstdint>

#include "data/host_batch.hpp"
#include "kernels/attention/attention.hpp"
#include "model/transformer.hpp"
#include "tensor/arena.hpp"
#include "tensor/async.hpp"
#include "train/config.hpp"

namespace mylos::train {

class DeviceBatch {
 public:
  DeviceBatch(const Config& config, Arena& arena);

  // Queues both. What `stream` is given from here on sees the batch, until the next upload. The host batch must live until
  // its sent() event; HostBatch::prepare() and its destructor wait for that.
  void upload(const Stream& stream, const data::HostBatch& host);
  const model::Batch& batch() const { return batch_; }
  // What is the same for all batches that can replay each other's recorded work.
  const kernels::AttentionBucket& bucket() const { return batch_.documents.bucket; }

 private:
  static constexpr std::size_t kSlots = 2;  // one is widened while the next is copied
  struct Slot {
    Tensor block;  // [bytes] u8, for tokens of u32
    Event widened;
  };
  kernels::AttentionShape shape_;
  DType storage_;
  kernels::AttentionOptions options_;
  bool with_documents_;
  std::array<Slot, kSlots> slots_;
  std::size_t next_ = 0;
  Stream copies_;
  Tensor document_start_, tables_;  // tables_: of documents for attention
  model::Batch batch_;
};

}  // namespace mylos::train
