#include "loadtest/search/knee.h"

#include <algorithm>
#include <cmath>

namespace beamline::loadtest {

std::optional<size_t> FindKnee(const std::vector<std::pair<double, double>>& points) {
  struct Point {
    size_t index;
    double rate, latency;
  };
  std::vector<Point> curve;
  for (size_t i = 0; i < points.size(); ++i) {
    const auto& [rate, latency] = points[i];
    if (!std::isfinite(rate) || !std::isfinite(latency)) continue;
    const double before = curve.empty() ? latency : curve.back().latency;
    curve.push_back({i, rate, std::max(before, latency)});
  }
  if (curve.size() < 3) return std::nullopt;
  const Point& first = curve.front();
  const Point& last = curve.back();
  if (last.rate <= first.rate || last.latency <= first.latency ||
      last.latency < kLeastRise * first.latency) {
    return std::nullopt;
  }
  // The distance from the chord is this difference, divided by the square root of two.
  double farthest = kLeastDistance;
  std::optional<size_t> knee;
  for (const Point& point : curve) {
    const double rate = (point.rate - first.rate) / (last.rate - first.rate);
    const double latency = (point.latency - first.latency) / (last.latency - first.latency);
    if (rate - latency < farthest) continue;
    farthest = rate - latency;
    knee = point.index;
  }
  return knee;
}

}  // namespace beamline::loadtest
