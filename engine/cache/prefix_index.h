// Finds cached blocks by content: the key of a full block is a hash of its tokens and of all tokens
// before it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// 128 bits of a hash with a random seed per process, so that an attacker cannot construct two
// prefixes with the same key.
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

  // The key before the first block. Requests with different salts share nothing, and neither do
  // sequences whose position 0 is a different row of the position table.
  BlockKey Root(std::string_view salt, int32_t first_position = 0) const;
  // The key of a block with `tokens` after a prefix with the key `parent`.
  BlockKey Next(const BlockKey& parent, std::span<const int32_t> tokens) const;

  std::optional<int32_t> Find(const BlockKey& key) const;
  bool Has(int32_t block) const { return keys_[block].has_value(); }
  // Does nothing if another block has the key. REQUIRES: the block is full and not indexed.
  void Insert(const BlockKey& key, int32_t block);
  // Call when the block gets other content. Does nothing if it is not indexed.
  void Erase(int32_t block);
  void Clear();
  size_t size() const { return blocks_.size(); }

 private:
  BlockKey seed_;
  absl::flat_hash_map<BlockKey, int32_t> blocks_;
  std::vector<std::optional<BlockKey>> keys_;  // by block
};

}  // namespace beamline
