#include "server/calls/connection_bytes.h"

#include <algorithm>
#include <limits>

namespace beamline {
namespace {

// RFC 9113, 4.1 and 4.2: size of a frame's header, and the default maximum of its payload.
constexpr int64_t kFrameHead = 9;
constexpr int64_t kFrameBytes = 16384;
constexpr int64_t kMessageHead = 5;
// A sample closer than this to the last but one replaces the last.
constexpr std::chrono::milliseconds kSpacing{200};
constexpr std::chrono::seconds kMemory{12};

}  // namespace

void ConnectionBytes::Deliver(int64_t bytes) {
  const int64_t message = bytes + kMessageHead;
  delivered_ += message + kFrameHead * (1 + message / kFrameBytes);
}

bool ConnectionBytes::Sample(int64_t received, Clock::time_point now,
                             std::optional<Clock::time_point> oldest) {
  const bool is_quiet = !samples_.empty() && received == received_;
  received_ = received;
  base_ = std::min(base_, net());
  const bool replaces = samples_.size() > 1 && now - samples_[samples_.size() - 2].time < kSpacing;
  if (replaces) samples_.pop_back();
  samples_.push_back({now, received});
  while (samples_.size() > 2 && now - samples_[1].time > kMemory) samples_.pop_front();
  if (!oldest.has_value()) {
    base_ = net();
  } else if (const int64_t since = ReceivedSince(*oldest);
             since != std::numeric_limits<int64_t>::max()) {
    base_ = std::max(base_, net() - since);
  }
  return is_quiet;
}

int64_t ConnectionBytes::kept() const { return std::max<int64_t>(0, net() - base_); }

int64_t ConnectionBytes::ReceivedSince(Clock::time_point since) const {
  const auto later = std::upper_bound(
      samples_.begin(), samples_.end(), since,
      [](Clock::time_point time, const Past& sample) { return time < sample.time; });
  if (later == samples_.begin()) return std::numeric_limits<int64_t>::max();
  return received_ - std::prev(later)->received;
}

void ConnectionBytes::GiveUpBefore(Clock::time_point since) {
  const int64_t received = ReceivedSince(since);
  if (received == std::numeric_limits<int64_t>::max()) return;
  base_ = std::max(base_, net() - received);
}

std::optional<Clock::time_point> ConnectionBytes::last_sample() const {
  if (samples_.empty()) return std::nullopt;
  return samples_.back().time;
}

}  // namespace beamline
