// The launch behind batch.hpp; arguments are checked by the host file.
#pragma once

#include "kernels/batch/batch.hpp"

namespace mylos::kernels::device {

void widen_batch(const Stream& stream, const PackedBatch& packed, const Tensor& tokens, const Tensor& labels,
                 const Tensor& positions, const Tensor& document_start);

}  // namespace mylos::kernels::device
