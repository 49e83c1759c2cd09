// Checks ranges of decoding options that a request of another protocol sets but does not use: top_p
// with a temperature of 0, for example. The engine never sees them, but a wrong value is still the
// client's mistake.
#pragma once

#include "absl/status/status.h"
#include "beamline/v1/inference.pb.h"

namespace beamline {

// FieldError naming the engine's field ("decoding.sampling.top_p") of the first value out of range,
// for any model.
absl::Status CheckRanges(const v1::Sampling& sampling);
absl::Status CheckRanges(const v1::Beam& beam);

}  // namespace beamline
