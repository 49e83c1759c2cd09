// Finds where a curve of latency over rate turns upward.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace beamline::loadtest {

// Returns the index of the knee of points (rate, latency) with ascending rates. Both axes are first
// scaled to 0 .. 1. Each latency is raised to the largest one before it, because more load cannot
// make answers faster: a dip is noise. The knee is the point farthest below the chord from the
// first point to the last; among equal distances the last one.
//
// Absent below three points. Absent for a flat curve: the last latency is less than kLeastRise
// times the first. Absent for a straight one: no point is farther than kLeastDistance from the
// chord. Points that are not finite are skipped.
std::optional<size_t> FindKnee(const std::vector<std::pair<double, double>>& points);

inline constexpr double kLeastRise = 1.5;
inline constexpr double kLeastDistance = 0.1;  // in scaled units, along the latency axis

}  // namespace beamline::loadtest
