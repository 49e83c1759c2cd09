// The operators of kernels/operators.h on the CPU, one function each. Operators::Run has checked
// the parameters. A row's float32 result never depends on the other rows of the call.
#pragma once

#include "kernels/cpu/context.h"
#include "kernels/operators.h"

namespace beamline::cpu {

void Compute(Context& context, const EmbedParams& params);
void Compute(Context& context, const MatMulParams& params);
void Compute(Context& context, const NormParams& params);
void Compute(Context& context, const ProjectHeadsParams& params);
void Compute(Context& context, const AttentionParams& params);
void Compute(Context& context, const GatherRowsParams& params);
void Compute(Context& context, const FillTokensParams& params);
void Compute(Context& context, const PoolParams& params);
void Compute(Context& context, const CopyBlocksParams& params);
void Compute(Context& context, const TopCandidatesParams& params);
void Compute(Context& context, const SampleParams& params);
void Compute(Context& context, const AdvanceBeamsParams& params);
void Compute(Context& context, const ReorderBeamsParams& params);
void Compute(Context& context, const ExpertsParams& params);
void Compute(Context& context, const UnfoldParams& params);

}  // namespace beamline::cpu
