#include "kernels/precision.h"

#include <string>

#include "base/status.h"
#include "fmt/format.h"
#include "kernels/compute_device.h"

namespace beamline {

absl::Status UnsupportedPrecision(std::string_view device, const Precision& precision,
                                  std::string_view accepted) {
  const std::string cache =
      precision.cache.has_value() ? fmt::format(", cache is {}", Name(*precision.cache)) : "";
  return absl::UnimplementedError(
      fmt::format("weights is {}, compute is {}{}, with which {} does not compute; accepted: {}",
                  Name(precision.weights), Name(precision.compute), cache, device, accepted));
}

absl::Status ComputeDevice::SupportsPrecision(const Precision& precision) const {
  BEAMLINE_RETURN_IF_ERROR(SupportsDType(precision.compute));
  if (precision.weights == precision.compute &&
      CacheDType(precision) == ActivationDType(precision.compute)) {
    return absl::OkStatus();
  }
  return UnsupportedPrecision(Name(), precision, "weights, compute and cache of one type");
}

}  // namespace beamline
