#include "engine/decoding/ngram_index.h"

#include <algorithm>

#include "base/check.h"

namespace beamline {
namespace {

// FNV-1a over the ids. Equal hashes are compared token by token, so a collision costs only time.
uint64_t HashTokens(std::span<const int32_t> tokens) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const int32_t token : tokens) {
    hash = (hash ^ static_cast<uint32_t>(token)) * 0x100000001b3ULL;
  }
  return hash;
}

}  // namespace

void NgramIndex::Append(std::span<const int32_t> history) {
  BEAMLINE_CHECK(history.size() == previous_.size() + 1);
  previous_.push_back(-1);
  if (history.size() < static_cast<size_t>(size_)) return;
  const auto position = static_cast<int32_t>(history.size()) - 1;
  const uint64_t hash = HashTokens(history.subspan(position - (size_ - 1), size_ - 1));
  const auto [entry, inserted] = latest_.try_emplace(hash, position);
  if (!inserted) {
    previous_[position] = entry->second;
    entry->second = position;
  }
}

void NgramIndex::FindFollowers(std::span<const int32_t> history,
                               std::vector<int32_t>& tokens) const {
  for (int32_t position = LatestFollower(history); position >= 0;
       position = SkipCollisions(history, previous_[position])) {
    tokens.push_back(history[position]);
  }
}

int32_t NgramIndex::LatestFollower(std::span<const int32_t> history) const {
  const auto prefix_size = static_cast<size_t>(size_) - 1;
  if (history.size() < prefix_size) return -1;
  const auto found = latest_.find(HashTokens(history.last(prefix_size)));
  return found == latest_.end() ? -1 : SkipCollisions(history, found->second);
}

int32_t NgramIndex::SkipCollisions(std::span<const int32_t> history, int32_t position) const {
  const auto prefix_size = static_cast<size_t>(size_) - 1;
  const std::span<const int32_t> prefix = history.last(prefix_size);
  while (position >= 0 &&
         !std::ranges::equal(prefix, history.subspan(position - prefix_size, prefix_size))) {
    position = previous_[position];
  }
  return position;
}

}  // namespace beamline
