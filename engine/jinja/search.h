// Text search in time linear in both texts, for any content: std::string::find takes time
// proportional to the product of their sizes for "aaaa...b" in "aaaa...". Bytes read count as work
// of the rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/jinja/run.h"

namespace beamline::jinja {

// As text.find(wanted, from).
size_t FindText(Run& run, std::string_view text, std::string_view wanted, size_t from = 0);

// Finds the last occurrence of one text; reusable for several texts to search.
class LastFinder {
 public:
  // `wanted` must outlive the finder.
  LastFinder(Run& run, std::string_view wanted);

  // As text.rfind(wanted).
  size_t Find(std::string_view text) const;

 private:
  char FromEnd(size_t i) const { return wanted_[wanted_.size() - 1 - i]; }

  Run& run_;
  const std::string_view wanted_;
  // For each prefix of the reversed text, its longest proper border (Knuth, Morris, Pratt 1977).
  std::vector<uint32_t> borders_;
};

}  // namespace beamline::jinja
