// Patterns that tell what they read: PCRE2 knows limits of backtracking, but none of what a loop
// reads before it fails, so that "[^b]*b|." takes the square of a text's size within all of them.
#pragma once

#include <string>
#include <string_view>

namespace beamline::text {

struct CountedPattern {
  // The same pattern with callouts (?Cn): behind what repeats, before each sixteenth alternative
  // (n is 16), and in long runs of letters. Between two of them little is read that is not part of
  // the way from one's position to the other's.
  std::string pattern;
  // What a back reference compares is on no such way when it fails.
  bool has_back_references = false;
};

// `pattern` is one of PCRE2's that compiles. Where this reads it in another way than PCRE2 does,
// what is made of it may not compile.
CountedPattern AddCallouts(std::string_view pattern);

}  // namespace beamline::text
