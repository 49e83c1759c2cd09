// Where a curve of latency over rate turns upward.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace beamline::loadtest {

// The index of the knee of points (rate, latency) with ascending rates: the point that is farthest
// below the chord from the first point to the last, after both axes have been scaled to 0 .. 1 and
// every latency has been raised to the largest before it (a dip is noise: more load is not
// answered sooner). Of equally far ones the last.
//
// Absent below three points; when the last latency is less than kLeastRise times the first, since
// what is flat has no knee; and when no point is farther than kLeastDistance from the chord, since
// what is straight has none either. Points that are not finite are left out.
std::optional<size_t> FindKnee(const std::vector<std::pair<double, double>>& points);

inline constexpr double kLeastRise = 1.5;
inline constexpr double kLeastDistance = 0.1;  // of the scaled axes, along the latency's

}  // namespace beamline::loadtest
