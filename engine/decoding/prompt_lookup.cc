#include "engine/decoding/prompt_lookup.h"

#include <algorithm>

namespace beamline {
namespace {

constexpr int32_t kFirstLength = 2;
constexpr int32_t kFirstPause = 4;
constexpr int32_t kLongestPause = 64;

}  // namespace

PromptLookup::PromptLookup(std::span<const int32_t> prompt)
    : followers_{NgramIndex(2), NgramIndex(3), NgramIndex(4)} {
  tokens_.reserve(prompt.size());
  for (const int32_t token : prompt) Append(token);
}

void PromptLookup::Append(int32_t token) {
  tokens_.push_back(token);
  for (NgramIndex& index : followers_) index.Append(tokens_);
}

PromptLookup::Match PromptLookup::Find() const {
  for (int32_t ngram = kLongestNgram; ngram >= 1; --ngram) {
    const int32_t follower = followers_[ngram - 1].LatestFollower(tokens_);
    if (follower >= 0) return {ngram, follower};
  }
  return {};
}

TokenIds PromptLookup::Copy(int32_t follower, int32_t count) const {
  TokenIds copy;
  copy.reserve(count);
  const auto size = static_cast<int32_t>(tokens_.size());
  for (int32_t i = 0; i < count; ++i) {
    const int32_t position = follower + i;
    copy.push_back(position < size ? tokens_[position] : copy[position - size]);
  }
  return copy;
}

GuessLength::GuessLength(int32_t max)
    : max_(max), length_(std::min(max, kFirstLength)), next_pause_(kFirstPause) {}

int32_t GuessLength::Next() {
  if (pause_ > 0) {
    --pause_;
    return 0;
  }
  return length_;
}

void GuessLength::Record(int32_t proposed, int32_t accepted) {
  if (accepted > 0) next_pause_ = kFirstPause;
  if (accepted == proposed) {
    length_ = std::max(length_, std::min(2 * proposed, max_));
  } else if (2 * accepted < proposed) {
    length_ = std::max(proposed / 2, 1);
  }
  if (accepted == 0 && proposed == 1) {
    pause_ = next_pause_;
    next_pause_ = std::min(2 * next_pause_, kLongestPause);
  }
}

}  // namespace beamline
