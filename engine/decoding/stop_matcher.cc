#include "engine/decoding/stop_matcher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace beamline {

StopStrings::StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {
  constexpr RequestLimit kLimit = LimitOf("limits.stop");
  BEAMLINE_CHECK(strings_.size() <= kLimit.size->max);
  for (const std::string& string : strings_) {
    BEAMLINE_CHECK(!string.empty() && string.size() <= kLimit.entry_size->max);
    std::vector<uint16_t> failure(string.size() + 1, 0);
    uint16_t matched = 0;
    for (size_t n = 1; n < string.size(); ++n) {
      while (matched > 0 && string[n] != string[matched]) matched = failure[matched];
      if (string[n] == string[matched]) ++matched;
      failure[n + 1] = matched;
    }
    failures_.push_back(std::move(failure));
  }
}

size_t StopMatcher::Feed(char byte) {
  size_t found = 0;
  for (size_t s = 0; s < strings_->strings_.size(); ++s) {
    const std::string& string = strings_->strings_[s];
    const std::vector<uint16_t>& failure = strings_->failures_[s];
    uint16_t matched = matched_[s];
    while (matched > 0 && string[matched] != byte) matched = failure[matched];
    if (string[matched] == byte) ++matched;
    if (matched == string.size()) {
      found = std::max(found, string.size());
      matched = failure[matched];
    }
    matched_[s] = matched;
  }
  return found;
}

size_t StopMatcher::held_bytes() const {
  return *std::max_element(matched_.begin(), matched_.end());
}

}  // namespace beamline
