// Maps byte positions of a text with special tokens to the same text without them. Both texts grow
// token by token. They may differ by more than a hidden token, because a decoder may treat a space
// or half a character next to it differently. A position within such a difference maps to its
// start.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace beamline {

class TextAlignment {
 public:
  // reach: maximum distance, in bytes, of a queried position before the last token's text.
  explicit TextAlignment(size_t reach) : reach_(reach) {}

  // Adds the text of one more token to both texts: whole characters.
  void Append(std::string_view full, std::string_view visible);

  size_t full_size() const { return full_size_; }
  // Bytes of the visible text before byte `place` of the full text. Text that so far only the
  // visible one has comes after every position. REQUIRES: place is within reach, and at the start
  // of a character or at the end.
  size_t VisibleAt(size_t place) const;

 private:
  // A run of bytes that both texts have, or only the full one.
  struct Run {
    size_t full = 0;  // where it starts in each text
    size_t visible = 0;
    bool hidden = false;
  };

  void Place(std::string_view full, std::string_view visible);
  void DropOldRuns();

  size_t reach_;
  size_t full_size_ = 0;
  size_t visible_size_ = 0;          // the aligned part
  std::string unplaced_;             // visible text after the aligned part
  std::vector<Run> runs_ = {Run{}};  // in order; each ends where the next starts
};

}  // namespace beamline
