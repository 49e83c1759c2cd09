#include "engine/decoding/text_alignment.h"

#include <algorithm>

#include "base/check.h"

namespace beamline {
namespace {

// With more runs than this, runs out of reach are removed.
constexpr size_t kManyRuns = 32;

bool IsInsideCharacter(std::string_view text, size_t place) {
  return place < text.size() && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80;
}

// Bytes of the whole characters at which both texts start equally.
size_t CommonPrefix(std::string_view a, std::string_view b) {
  size_t size = std::ranges::mismatch(a, b).in1 - a.begin();
  while (size > 0 && (IsInsideCharacter(a, size) || IsInsideCharacter(b, size))) --size;
  return size;
}

// Bytes of the whole characters at which both texts end equally.
size_t CommonSuffix(std::string_view a, std::string_view b) {
  const size_t most = std::min(a.size(), b.size());
  size_t size = 0;
  while (size < most && a[a.size() - 1 - size] == b[b.size() - 1 - size]) ++size;
  while (size > 0 && IsInsideCharacter(a, a.size() - size)) --size;
  return size;
}

}  // namespace

void TextAlignment::Append(std::string_view full, std::string_view visible) {
  if (unplaced_.empty() && full == visible) {
    full_size_ += full.size();
    visible_size_ += visible.size();
    return;
  }
  unplaced_ += visible;
  if (full.empty()) return;
  if (runs_.size() > kManyRuns) DropOldRuns();
  Place(full, unplaced_);
  unplaced_.clear();
}

void TextAlignment::Place(std::string_view full, std::string_view visible) {
  const size_t prefix = CommonPrefix(full, visible);
  const size_t suffix = CommonSuffix(full.substr(prefix), visible.substr(prefix));
  runs_.push_back({full_size_ + prefix, visible_size_ + prefix, /*hidden=*/true});
  full_size_ += full.size();
  visible_size_ += visible.size();
  runs_.push_back({full_size_ - suffix, visible_size_ - suffix, /*hidden=*/false});
}

void TextAlignment::DropOldRuns() {
  const auto in_reach = std::ranges::find_if(
      runs_, [this](const Run& run) { return run.full + reach_ >= full_size_; });
  // The run before it covers the positions up to it.
  if (in_reach > runs_.begin() + 1) runs_.erase(runs_.begin(), in_reach - 1);
}

size_t TextAlignment::VisibleAt(size_t place) const {
  BEAMLINE_CHECK(place <= full_size_ && place >= runs_.front().full);
  // The last run that starts before the position: where runs meet, the earlier one decides.
  const auto next = std::ranges::lower_bound(runs_, place, {}, &Run::full);
  if (next == runs_.begin()) return next->visible;
  const Run& run = *(next - 1);
  return run.hidden ? run.visible : run.visible + (place - run.full);
}

}  // namespace beamline
