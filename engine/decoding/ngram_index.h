// Which tokens would repeat an n-gram of a growing history. An append costs O(size), a question
// O(size) for each earlier place of the same n - 1 tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// The history is the caller's: every call gets all of it, one token longer at each Append.
class NgramIndex {
 public:
  // REQUIRES: size >= 1.
  explicit NgramIndex(int32_t size) : size_(size) {}

  // Takes in the n-gram that the last token completes.
  void Append(std::span<const int32_t> history);
  // Adds to `tokens` what followed the history's last size - 1 tokens anywhere before; a token that
  // followed twice comes twice.
  void FindFollowers(std::span<const int32_t> history, std::vector<int32_t>& tokens) const;
  // The latest position that followed the history's last size - 1 tokens before; -1: none.
  int32_t LatestFollower(std::span<const int32_t> history) const;

 private:
  // The first of the positions `position`, previous_[position] ... whose preceding tokens are the
  // history's last ones; -1: none.
  int32_t SkipCollisions(std::span<const int32_t> history, int32_t position) const;

  int32_t size_;
  // Hash of size - 1 tokens to the latest position that followed them.
  absl::flat_hash_map<uint64_t, int32_t> latest_;
  // By position: the position before it whose preceding tokens have the same hash; -1: none.
  std::vector<int32_t> previous_;
};

}  // namespace beamline
