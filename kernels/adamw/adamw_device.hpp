// The launches behind adamw.hpp; arguments are checked by the host file.
#pragma once

#include "kernels/adamw/adamw.hpp"

namespace mylos::kernels::device {

void adamw(const Stream& stream, const AdamWStep& step, const Tensor& g, const Tensor& scale, const Tensor& p,
           const Tensor& low, const Tensor& m, const Tensor& v);
void split_master(const Stream& stream, const Tensor& master, const Tensor& p, const Tensor& low);
void join_master(const Stream& stream, const Tensor& p, const Tensor& low, const Tensor& master);

}  // namespace mylos::kernels::device
