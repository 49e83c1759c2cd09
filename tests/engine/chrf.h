// chrF: how alike two texts are, by the groups of neighbouring characters that they share.
#pragma once

#include <string>
#include <vector>

namespace beamline {

// The corpus score of sacreBLEU's signature "nc:6|nw:0|space:no": character 1- to 6-grams without
// white space, beta 2 (recall counts twice), counts summed over all texts before precision and
// recall are taken. 0 .. 100. REQUIRES: as many references as texts; both valid UTF-8.
// Source: Popović, "chrF: character n-gram F-score for automatic MT evaluation" (2015).
double CorpusChrf(const std::vector<std::string>& texts,
                  const std::vector<std::string>& references);

}  // namespace beamline
