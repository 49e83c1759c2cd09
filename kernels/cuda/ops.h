// The operators of kernels/backend.h on a GPU, one function each: launched on the device's stream,
// faults recorded in the device. The backend checks the parameters before.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cuda/attention_picker.h"
#include "kernels/cuda/device.h"

namespace beamline::cuda {

void Embed(Device& device, const EmbedParams& params);
void GatherRows(Device& device, const Tensor& input, const int32_t* rows, const Tensor& output);
void FillTokens(Device& device, const int32_t* words, std::span<const TokenFill> fills,
                int32_t* token_ids);
void CopyBlocks(Device& device, const KvLayer& layer, std::span<const BlockCopy> copies);
void Norm(Device& device, const NormParams& params);
// The longest row of a norm: one waits in shared memory as float32.
int MostNormColumns(const Device& device);
// ProjectHeads where the product is in params.workspace already: from there to its places.
void MoveHeads(Device& device, const ProjectHeadsParams& params);
// Heads of at most kMostHeadDim elements.
inline constexpr int kMostHeadDim = 256;
void Attention(Device& device, const AttentionParams& params, const AttentionChoice& choice);
void Pool(Device& device, const PoolParams& params);
void TopCandidates(Device& device, const TopCandidatesParams& params);
void Sample(Device& device, const SampleParams& params);
void AdvanceBeams(Device& device, const AdvanceBeamsParams& params);
void ReorderBeams(Device& device, const ReorderBeamsParams& params);

}  // namespace beamline::cuda
