#include "loadtest/workload/arrivals.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

constexpr uint64_t kArrivalPart = 1;  // selects the random stream of arrivals

constexpr std::chrono::nanoseconds kNever =
    std::chrono::seconds(static_cast<int64_t>(RateProfile::kNever));

RateProfile ProfileOf(const ArrivalOptions& options) {
  return options.phases.empty() ? RateProfile(options.rate) : RateProfile(options.phases);
}

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

std::vector<double> AskedPerSecond(const ArrivalOptions& options, double end_s) {
  std::vector<double> rates;
  if (options.trace) {
    rates.resize(static_cast<size_t>(std::ceil(end_s)));
    for (const TraceEntry& entry : *options.trace) {
      const auto second = static_cast<size_t>(entry.time / std::chrono::seconds(1));
      if (second < rates.size()) ++rates[second];
    }
    return rates;
  }
  const RateProfile profile = ProfileOf(options);
  for (double begin_s = 0; begin_s < end_s; begin_s += 1) {
    const double until_s = std::min(begin_s + 1, end_s);
    rates.push_back((profile.CountAt(until_s) - profile.CountAt(begin_s)) / (until_s - begin_s));
  }
  return rates;
}

Arrivals::Arrivals(const ArrivalOptions& options)
    : options_(options), profile_(ProfileOf(options)), random_(options.seed, kArrivalPart) {}

std::chrono::nanoseconds Arrivals::Next() {
  if (options_.trace) {
    const bool is_over = num_drawn_ >= options_.trace->size();
    return is_over ? kNever : (*options_.trace)[num_drawn_++].time;
  }
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
