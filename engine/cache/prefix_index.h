// Finds cached blocks by what they hold: a full block is known by a hash of its tokens and of
// everything before it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// 128 bits of a hash that is seeded at random in each process, so that nobody outside can construct
// two beginnings of the same key.
struct BlockKey {
  uint64_t high = 0;
  uint64_t low = 0;
  bool operator==(const BlockKey&) const = default;
  template <typename H>
  friend H AbslHashValue(H state, const BlockKey& key) {
    return H::combine(std::move(state), key.high, key.low);
  }
};

// Not thread safe: a replica's thread owns its index.
class PrefixIndex {
 public:
  explicit PrefixIndex(int32_t num_blocks);

  // The key before the first block. Requests with different salts share nothing, nor do sequences
  // whose position 0 has different rows of the table of positions.
  BlockKey Root(std::string_view salt, int32_t first_position = 0) const;
  // The key of a block that holds `tokens` after a beginning of key `parent`.
  BlockKey Next(const BlockKey& parent, std::span<const int32_t> tokens) const;

  std::optional<int32_t> Find(const BlockKey& key) const;
  bool Has(int32_t block) const { return keys_[block].has_value(); }
  // Does nothing when another block has the key already. REQUIRES: the block is full and not
  // indexed.
  void Insert(const BlockKey& key, int32_t block);
  // The block gets other content. Does nothing when it is not indexed.
  void Erase(int32_t block);
  void Clear();
  size_t size() const { return blocks_.size(); }

 private:
  BlockKey seed_;
  absl::flat_hash_map<BlockKey, int32_t> blocks_;
  std::vector<std::optional<BlockKey>> keys_;  // by block
};

}  // namespace beamline
