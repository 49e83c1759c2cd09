// Finds the tokens that would repeat an n-gram of a growing history. An append costs O(size); a
// query costs O(size) for each earlier occurrence of the same n - 1 tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// The caller keeps the history: each call passes all of it, one token longer at each Append.
class NgramIndex {
 public:
  // REQUIRES: size >= 1.
  explicit NgramIndex(int32_t size) : size_(size) {}

  // Adds the n-gram that the last token completes.
  void Append(std::span<const int32_t> history);
  // Appends to `tokens` each token that earlier followed the history's last size - 1 tokens; a
  // token that followed twice is added twice.
  void FindFollowers(std::span<const int32_t> history, std::vector<int32_t>& tokens) const;
  // The position after the latest earlier occurrence of the history's last size - 1 tokens; -1:
  // none.
  int32_t LatestFollower(std::span<const int32_t> history) const;

 private:
  // The first of the positions `position`, previous_[position], ... whose preceding tokens equal
  // the history's last ones; -1: none.
  int32_t SkipCollisions(std::span<const int32_t> history, int32_t position) const;

  int32_t size_;
  // Hash of size - 1 tokens -> latest position that followed them.
  absl::flat_hash_map<uint64_t, int32_t> latest_;
  // By position: the previous position whose preceding tokens have the same hash; -1: none.
  std::vector<int32_t> previous_;
};

}  // namespace beamline
