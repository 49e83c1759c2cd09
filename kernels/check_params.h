// Checks arguments against the contracts in kernels/operators.h. A violation is a programmer error.
// Operators::Run calls these for every device.
#pragma once

#include <span>

#include "absl/status/status.h"
#include "kernels/operators.h"

namespace beamline {

void Check(const EmbedParams& params, const CheckOptions& options);
void Check(const MatMulParams& params, const CheckOptions& options);
void Check(const NormParams& params, const CheckOptions& options);
void Check(const ProjectHeadsParams& params, const CheckOptions& options);
void Check(const AttentionParams& params, const CheckOptions& options);
void Check(const GatherRowsParams& params, const CheckOptions& options);
void Check(const FillTokensParams& params, const CheckOptions& options);
void Check(const PoolParams& params, const CheckOptions& options);
void Check(const CopyBlocksParams& params, const CheckOptions& options);
void Check(const TopCandidatesParams& params, const CheckOptions& options);
void Check(const SampleParams& params, const CheckOptions& options);
void Check(const AdvanceBeamsParams& params, const CheckOptions& options);
void Check(const ReorderBeamsParams& params, const CheckOptions& options);
void Check(const ExpertsParams& params, const CheckOptions& options);
void Check(const UnfoldParams& params, const CheckOptions& options);

// Weights come from files, so faults are INVALID_ARGUMENT with the reason.
absl::Status ValidateWeightParts(std::span<const HostMatrix> parts);

}  // namespace beamline
