#include "loadtest/workload/arrivals.h"

#include <cmath>

#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr uint64_t kArrivalPart = 1;  // of what the seed decides

}  // namespace

absl::StatusOr<ArrivalKind> ParseArrivalKind(std::string_view name) {
  for (const auto kind : {ArrivalKind::kPoisson, ArrivalKind::kConstant, ArrivalKind::kBurst}) {
    if (name == ArrivalKindName(kind)) return kind;
  }
  return absl::InvalidArgumentError(
      fmt::format("arrivals \"{}\": expected poisson, constant or burst", name));
}

const char* ArrivalKindName(ArrivalKind kind) {
  switch (kind) {
    case ArrivalKind::kPoisson:
      return "poisson";
    case ArrivalKind::kConstant:
      return "constant";
    case ArrivalKind::kBurst:
      return "burst";
  }
  return "unknown";
}

RateProfile ProfileOf(const ArrivalOptions& options) {
  return options.phases.empty() ? RateProfile(options.rate) : RateProfile(options.phases);
}

Arrivals::Arrivals(const ArrivalOptions& options)
    : options_(options), profile_(ProfileOf(options)), random_(options.seed, kArrivalPart) {}

std::chrono::nanoseconds Arrivals::Next() {
  switch (options_.kind) {
    case ArrivalKind::kPoisson:
      place_ += random_.Exponential(1);
      break;
    case ArrivalKind::kConstant:
      place_ = static_cast<double>(num_drawn_);
      break;
    case ArrivalKind::kBurst: {
      const auto size = static_cast<uint64_t>(options_.burst_size);
      place_ = static_cast<double>(num_drawn_ / size * size);
      break;
    }
  }
  ++num_drawn_;
  return std::chrono::nanoseconds(std::llround(profile_.TimeOf(place_) * 1e9));
}

}  // namespace beamline::loadtest
