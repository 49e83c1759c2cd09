// Patterns that tell what they read: Oniguruma knows limits of backtracking, but none of what a
// loop reads before it fails, so that "[^b]*b|." takes the square of a text's size within all of
// them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace beamline::text {

struct CountedPattern {
  // The same pattern with callouts "(?{})": after what repeats, before it where Oniguruma does not
  // count as retries what is given back, and where much is read without a repeat. Between two of
  // them little is read that is not on the way from one's position to the other's, but for what the
  // other members say. What means something else in other versions of Oniguruma than in the
  // reference's is spelled out.
  std::string pattern;
  // A back reference, a look-behind or an absent group may look through all of the text.
  bool reads_far = false;
  // \X may, where it is a single cluster.
  bool reads_clusters = false;
  // The longest text that is compared at once.
  size_t longest_literal = 0;
  // Calls of groups, \g<...>.
  size_t calls = 0;
  // That were put in: each search of Oniguruma's sets the data of all of them.
  size_t callouts = 0;
};

// Of a pattern that Oniguruma refuses, any text.
CountedPattern AddCallouts(std::string_view pattern);

}  // namespace beamline::text
