// Where places of a text with special tokens lie in the same text without them. Both texts grow
// token by token; where they differ by more than a hidden token (a decoder may treat a space or
// half a character otherwise beside it), a place within the difference lies where it starts.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace beamline {

class TextAlignment {
 public:
  // reach: how far before the last token's text places are still asked for, in bytes.
  explicit TextAlignment(size_t reach) : reach_(reach) {}

  // What one more token adds to both texts: whole characters.
  void Append(std::string_view full, std::string_view visible);

  size_t full_size() const { return full_size_; }
  // Bytes of the visible text that come before byte `place` of the full one. Text that only the
  // visible one has so far comes after every place. REQUIRES: place is at the start of a character
  // or at the end, and in reach.
  size_t VisibleAt(size_t place) const;

 private:
  // A run of bytes that both texts have, or that the full one has alone.
  struct Run {
    size_t full = 0;  // where it starts in either text
    size_t visible = 0;
    bool hidden = false;
  };

  void Place(std::string_view full, std::string_view visible);
  void DropOldRuns();

  size_t reach_;
  size_t full_size_ = 0;
  size_t visible_size_ = 0;          // as far as it is aligned
  std::string unplaced_;             // visible text behind that
  std::vector<Run> runs_ = {Run{}};  // in order; each ends where the next one starts
};

}  // namespace beamline
