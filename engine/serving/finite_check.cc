#include "engine/serving/finite_check.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/cord.h"
#include "engine/api/engine.h"
#include "fmt/format.h"

namespace beamline {

bool AreFinite(std::span<const RowResult> rows) {
  return std::all_of(rows.begin(), rows.end(),
                     [](const RowResult& row) { return std::isfinite(row.log_normalizer); });
}

bool AreFinite(std::span<const float> values) {
  // Without a branch on each: x - x is 0, or NaN when x is not finite.
  float sum = 0.0f;
  for (const float value : values) sum += value - value;
  return sum == 0.0f;
}

absl::Status NotFiniteError(const std::string& model) {
  absl::Status status = absl::InternalError(
      fmt::format("model '{}' computed NaN or infinity for this request: most often float16 is too "
                  "small for it, and bfloat16 or float32 is not; else its weights are damaged",
                  model));
  status.SetPayload(kPublicErrorPayload, absl::Cord());
  return status;
}

}  // namespace beamline
