// A model whose numbers overflow, or whose weights are damaged, computes NaN and infinities: the
// request that meets them fails, instead of getting an answer made of them.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "engine/decoding/group_decoder.h"
#include "engine/encoding/finite.h"
#include "kernels/tensor.h"

namespace beamline {

// Whether every row's logits are a distribution. The sum of their exponentials is finite then and
// only then: NaN and +infinity among the logits reach it, and -infinity is no sum of any.
bool AreFinite(std::span<const RowResult> rows);

// INTERNAL, with a message that the client is told: that the model's numbers left the range of
// `dtype`, which it computes in, and which types hold more.
absl::Status NotFiniteError(const std::string& model, DType dtype);

}  // namespace beamline
