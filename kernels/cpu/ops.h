// The operators of kernels/backend.h on the CPU, one function each. Parameters are checked by the
// caller (kernels/check_params.h). A row's float32 result never depends on the other rows of the
// call.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/context.h"

namespace beamline::cpu {

void Embed(Context& context, const EmbedParams& params);
void GatherRows(Context& context, const Tensor& input, const int32_t* rows, const Tensor& output);
void CopyBlocks(Context& context, const KvLayer& layer, std::span<const BlockCopy> copies);
void MatMul(Context& context, const MatMulParams& params);
void Norm(Context& context, const NormParams& params);
void ProjectHeads(Context& context, const ProjectHeadsParams& params);
void Attention(Context& context, const AttentionParams& params);
void Pool(Context& context, const PoolParams& params);
void TopCandidates(Context& context, const TopCandidatesParams& params);
void Sample(Context& context, const SampleParams& params);
void AdvanceBeams(const AdvanceBeamsParams& params);
void ReorderBeams(const ReorderBeamsParams& params);

}  // namespace beamline::cpu
