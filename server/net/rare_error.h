// An error that may come thousands of times a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace beamline {

// Logs an error that may come thousands of times a second at most once in ten seconds.
class RareError {
 public:
  void Log(const std::string& what);

 private:
  std::optional<std::chrono::steady_clock::time_point> last_;
  int64_t num_unsaid_ = 0;
};

}  // namespace beamline
