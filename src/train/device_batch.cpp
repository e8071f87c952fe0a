#include "train/device_batch.hpp"

#include "base/error.hpp"
#include "kernels/batch/batch.hpp"

namespace mylos::train {
namespace {
constexpr const char* kCategory = "batch";
}  // namespace

DeviceBatch::DeviceBatch(const Config& c, Arena& arena)
    : shape_{c.train.batch, c.train.sequence, c.model.heads, c.model.kv_heads, c.model.head_size},
      storage_(c.train.storage),
      options_{.deterministic = c.train.deterministic, .documents = c.data.documents},
      with_documents_(c.data.documents) {
  const std::int64_t bytes = data::BatchBlock{shape_.batch, shape_.sequence, DType::u32}.bytes();
  for (Slot& s : slots_) s.block = arena.take(DType::u8, {bytes}, kCategory);
  const auto part = [&] { return arena.take(DType::i32, {shape_.batch, shape_.sequence}, kCategory); };
  batch_ = {.tokens = part(), .labels = part(), .positions = part(), .documents = {}};
  document_start_ = part();
  const std::int64_t tables = with_documents_ ? kernels::attention_document_tables(shape_, storage_) : 0;
  if (tables > 0) tables_ = arena.take(DType::u8, {tables}, kCategory);
}

void DeviceBatch::upload(const Stream& stream, const data::HostBatch& host) {
  check(host.batch == shape_.batch && host.sequence == shape_.sequence,
        "a batch of {} x {} tokens for buffers of {} x {}", host.batch, host.sequence, shape_.batch, shape_.sequence);
  Slot& slot = slots_[next_];
  next_ = (next_ + 1) % kSlots;
  const data::BatchBlock block = host.block();
  const auto part = [&](std::int64_t begin, DType dtype, std::int64_t columns) {
    return Tensor(static_cast<char*>(slot.block.data()) + begin, dtype, {shape_.batch, columns});
  };
  wait_for(copies_, slot.widened);
  queue_upload(copies_, host.memory(), 0, slot.block.slice(0, 0, block.bytes()));
  host.sent().record(copies_);
  wait_for(stream, host.sent());
  kernels::widen_batch(stream,
                       {.tokens = part(0, block.dtype, shape_.sequence + 1),
                        .begins = part(block.begins(), DType::u32, block.words()),
                        .ignored = part(block.ignored(), DType::u32, block.words())},
                       batch_.tokens, batch_.labels, batch_.positions, document_start_);
  slot.widened.record(stream);
  if (!with_documents_) return;
  kernels::AttentionLengths lengths;
  for (const std::int32_t tokens : host.document_lengths) lengths.add(tokens);
  batch_.documents = {document_start_, kernels::attention_bucket(shape_, storage_, lengths, options_), tables_};
  kernels::attention_prepare_documents(stream, shape_, batch_.documents);
}

}  // namespace mylos::train
