#include "engine/loading/model_precision.h"

#include <optional>
#include <string>

#include "engine/api/model_settings.h"

namespace beamline {
namespace {

std::optional<DType> TypeOf(const std::string& word) {
  for (const DType dtype : kComputeTypes) {
    if (word == Name(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace

Precision PrecisionOf(const ModelOptions& options) {
  return Precision(TypeOf(options.weights).value_or(options.dtype),
                   TypeOf(options.compute).value_or(options.dtype), TypeOf(options.cache));
}

}  // namespace beamline
