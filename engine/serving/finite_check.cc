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

absl::Status NotFiniteError(const std::string& model, DType dtype) {
  const char* const reason =
      dtype == DType::kFloat16
          ? "float16, which ends at 65504, is most often too small for it; serve it with "
            "dtype=bfloat16 or dtype=float32, which end at 3e38"
          : "its numbers pass 3e38, where the type ends, or its weights are damaged";
  absl::Status status = absl::InternalError(
      fmt::format("model '{}' computed NaN or infinity for this request in {}: {}", model,
                  Name(dtype), reason));
  status.SetPayload(kPublicErrorPayload, absl::Cord());
  return status;
}

}  // namespace beamline
