// Finds stop strings in text that arrives byte by byte (Knuth, Morris and Pratt, 1977), and knows
// how many of the last bytes may still become one.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/api/request_limits.h"

namespace beamline {

// The stop strings of one request with their failure functions; shared by its sequences.
class StopStrings {
 public:
  // REQUIRES: strings within the limits of "limits.stop".
  explicit StopStrings(std::vector<std::string> strings);
  bool empty() const { return strings_.empty(); }

 private:
  friend class StopMatcher;
  std::vector<std::string> strings_;
  // failures_[s][n]: length of the longest proper prefix of string s that ends its first n bytes.
  std::vector<std::vector<uint16_t>> failures_;
};

// Match state of one sequence; copied when the sequence forks.
class StopMatcher {
 public:
  // strings must outlive the matcher.
  explicit StopMatcher(const StopStrings& strings) : strings_(&strings) {}

  // Takes the next byte. Returns the size of the longest stop string that ends with it, 0 for none.
  size_t Feed(char byte);
  // How many of the last bytes may be the start of a stop string.
  size_t held_bytes() const;

 private:
  const StopStrings* strings_;
  std::array<uint16_t, LimitOf("limits.stop").size->max>
      matched_{};  // bytes of each string matched so far
};

}  // namespace beamline
