// The library's public header (README.md): fused matrix products and softmax for other C++
// programs.
//
//   auto device = cuda::Device::Create(0, {});                    // one GPU, its memory and stream
//   auto products = cuda::LtMatMul::Create(**device, "algorithms");
//   (*products)->set_gradients(cuda::Gradients());                // for epilogues that write sums
//   (*products)->Run({.a = x, .b = w, .d = h, .epilogue = cuda::LtEpilogue::kGeluAuxBias, ...});
//   cuda::RowSoftmax(**device, {.x = scores, .y = weights});
//   absl::Status status = (*device)->Synchronize();
//
// Work is asynchronous, in the order of the calls, on Device::stream(). The other headers of this
// folder are internal.
#pragma once

#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/gradients.h"
#include "kernels/cuda/epilogues/lt_matmul.h"
#include "kernels/cuda/epilogues/lt_product.h"
#include "kernels/cuda/epilogues/row_softmax.h"
