#include "server/guard/frame_watch.h"

#include <algorithm>

namespace beamline {
namespace {

// RFC 9113, 6.
enum FrameType : uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kReset = 3,
  kSettings = 4,
  kContinuation = 9
};
constexpr uint8_t kEndStream = 1;
constexpr uint8_t kEndHeaders = 4;

}  // namespace

bool FrameWatch::Follow(std::string_view bytes, TimePoint now) {
  if (!fault_.empty()) return false;
  while (!bytes.empty() && fault_.empty()) {
    const size_t skipped = std::min(to_skip_, bytes.size());
    to_skip_ -= skipped;
    bytes.remove_prefix(skipped);
    const size_t wanted = std::min(kHeadBytes - head_size_, bytes.size());
    std::copy_n(bytes.begin(), wanted, head_.begin() + head_size_);
    head_size_ += wanted;
    bytes.remove_prefix(wanted);
    if (head_size_ < kHeadBytes) break;
    head_size_ = 0;
    OnFrame(now);
  }
  return fault_.empty();
}

void FrameWatch::CountReset(TimePoint now) {
  const auto excess = flood_->AddReset(now);
  if (excess == ConnectionFlood::Excess::kConnection) {
    fault_ = "calls that it takes back at once";
  } else if (excess == ConnectionFlood::Excess::kPeer) {
    fault_ = "calls that all connections of its address together take back at once";
  }
}

void FrameWatch::CountIdleFrame(TimePoint now) {
  const auto excess = flood_->AddIdleFrame(now);
  if (excess == ConnectionFlood::Excess::kConnection) {
    fault_ = "frames that ask for nothing";
  } else if (excess == ConnectionFlood::Excess::kPeer) {
    fault_ = "frames that ask for nothing, of all connections of its address together";
  }
}

void FrameWatch::OnFrame(TimePoint now) {
  const size_t size = size_t{head_[0]} << 16 | size_t{head_[1]} << 8 | head_[2];
  const uint8_t type = head_[3];
  const uint8_t flags = head_[4];
  const uint32_t stream =
      (uint32_t{head_[5]} << 24 | uint32_t{head_[6]} << 16 | uint32_t{head_[7]} << 8 | head_[8]) &
      0x7fffffff;
  to_skip_ = size;
  if (type == kHeaders || type == kContinuation) {
    header_bytes_ = (type == kHeaders ? 0 : header_bytes_) + size;
    if (header_bytes_ > kMostHeaderBytes) fault_ = "headers of more than 65536 bytes";
    if ((flags & kEndHeaders) != 0) header_bytes_ = 0;
  }
  if (now - mark_ >= kYoung) {
    // After a pause nothing is young that began before it.
    last_before_ = now - mark_ >= 2 * kYoung ? last_ : last_at_mark_;
    last_at_mark_ = last_;
    mark_ = now;
  }
  if (type == kHeaders) last_ = std::max(last_, stream);
  if (type == kReset && IsYoung(stream)) CountReset(now);
  const bool is_idle = type == kSettings || type == kPriority || type == kContinuation ||
                       (type == kData && size == 0 && (flags & kEndStream) == 0);
  if (is_idle) CountIdleFrame(now);
}

}  // namespace beamline
