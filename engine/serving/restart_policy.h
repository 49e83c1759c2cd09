// When a replica that has failed is loaded once more. Pure.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace beamline {

struct RestartPolicy {
  std::chrono::milliseconds first{
      1000};  // after the first failure; doubled after each that follows
  std::chrono::milliseconds longest{30000};
  int most_failures = 8;  // in a row; then it stays as it is

  // How long to wait after so many failures in a row; nullopt: for good.
  std::optional<std::chrono::milliseconds> Wait(int failures) const {
    if (failures >= most_failures) return std::nullopt;
    std::chrono::milliseconds wait = first;
    for (int i = 1; i < failures && wait < longest; ++i) wait *= 2;
    return std::min(wait, longest);
  }
};

}  // namespace beamline
