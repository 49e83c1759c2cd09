// The contract of kernels/backend.h, checked before an operator runs: a violation is a programmer
// error. Every backend calls these before it computes.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/backend.h"

namespace beamline {

// What the checks need to know of a device.
struct CheckOptions {
  bool float32_only = false;   // activations are float32 whatever the weights are
  bool host_readable = false;  // index arrays lie in host memory and are checked too
};

void Check(const EmbedParams& params, const CheckOptions& options);
void Check(const MatMulParams& params, const CheckOptions& options);
void Check(const NormParams& params, const CheckOptions& options);
void Check(const ProjectHeadsParams& params, const CheckOptions& options);
void Check(const AttentionParams& params, const CheckOptions& options);
void Check(const PoolParams& params, const CheckOptions& options);
void Check(const TopCandidatesParams& params);
void Check(const SampleParams& params);
void Check(const AdvanceBeamsParams& params);
void Check(const ReorderBeamsParams& params, const CheckOptions& options);
void CheckGatherRows(const Tensor& input, const int32_t* rows, const Tensor& output);
void CheckCopyBlocks(const KvLayer& layer, std::span<const BlockCopy> copies);

// Weights come from files: InvalidArgument says what is wrong.
absl::Status ValidateWeightParts(std::span<const HostMatrix> parts);

}  // namespace beamline
