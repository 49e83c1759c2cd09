#include "engine/transformer/model_types.h"

#include <algorithm>

namespace beamline {

Precision ModelTypes::OfMatrix(std::span<const HostMatrix> parts) const {
  Precision of_matrix = precision;
  if (!keeps_stored || parts.empty()) return of_matrix;
  const DType stored = parts.front().dtype;
  const bool is_one =
      std::ranges::all_of(parts, [stored](const HostMatrix& part) { return part.dtype == stored; });
  if (is_one) of_matrix.weights = stored;
  return of_matrix;
}

}  // namespace beamline
