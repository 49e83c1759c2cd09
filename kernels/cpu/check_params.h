// The contract of kernels/backend.h, checked before an operator runs: a violation is a programmer
// error.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace beamline::cpu {

void Check(const EmbedParams& params);
void Check(const MatMulParams& params);
void Check(const NormParams& params);
void Check(const ProjectHeadsParams& params);
void Check(const AttentionParams& params);
void Check(const PoolParams& params);
void Check(const TopCandidatesParams& params);
void Check(const SampleParams& params);
void CheckGatherRows(const Tensor& input, const int32_t* rows, const Tensor& output);
void CheckCopyBlocks(const KvLayer& layer, std::span<const BlockCopy> copies);

// Weights come from files: InvalidArgument says what is wrong.
absl::Status ValidateWeightParts(std::span<const HostMatrix> parts);

}  // namespace beamline::cpu
