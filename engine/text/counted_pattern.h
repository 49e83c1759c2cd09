// Adds callouts to a regular expression that report how much it reads. Oniguruma limits
// backtracking, but not what a loop reads before it fails. So "[^b]*b|." needs time quadratic in
// the text's size without exceeding its limits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace beamline::text {

struct CountedPattern {
  // The same pattern with callouts "(?{})": after repeats; before a repeat whose backtracking
  // Oniguruma does not count as retries; and where much is read without a repeat. Between two
  // callouts, the bytes read are about those between their positions, except for what the other
  // members describe. Constructs that differ between Oniguruma's versions are replaced by explicit
  // forms of the reference's version.
  std::string pattern;
  // A back reference, look-behind or absent group may read the whole text.
  bool reads_far = false;
  // \X may read the whole text if it is a single cluster.
  bool reads_clusters = false;
  // The longest literal that is compared at once.
  size_t longest_literal = 0;
  // Number of group calls, \g<...>.
  size_t calls = 0;
  // Number of added callouts: each search of Oniguruma initialises the data of all of them.
  size_t callouts = 0;
};

// For a pattern that Oniguruma rejects, the result is unspecified.
CountedPattern AddCallouts(std::string_view pattern);

}  // namespace beamline::text
