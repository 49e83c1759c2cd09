// Ranges of decoding options that a request of another protocol has beside those which it chooses
// by: a top_p beside a temperature of 0, say. The engine never sees them, and a wrong value is the
// client's mistake all the same.
#pragma once

#include "absl/status/status.h"
#include "beamline/v1/inference.pb.h"

namespace beamline {

// FieldError that names the engine's field ("decoding.sampling.top_p") for the first value that is
// beyond its range, whatever the model.
absl::Status CheckRanges(const v1::Sampling& sampling);
absl::Status CheckRanges(const v1::Beam& beam);

}  // namespace beamline
