#include "engine/cache/prefix_index.h"

#include <random>

#include "base/check.h"

namespace beamline {
namespace {

// The finaliser of splitmix64 over a running state: every input bit reaches every output bit.
uint64_t Mix(uint64_t state, uint64_t value) {
  uint64_t z = (state ^ value) + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void Absorb(BlockKey& key, uint64_t value) {
  key.high = Mix(key.high, value);
  key.low = Mix(key.low, value ^ key.high);
}

}  // namespace

PrefixIndex::PrefixIndex(int32_t num_blocks) : keys_(num_blocks) {
  std::random_device random;
  for (int i = 0; i < 4; ++i) Absorb(seed_, random());
}

BlockKey PrefixIndex::Root(std::string_view salt, int32_t first_position) const {
  BlockKey key = seed_;
  for (const char c : salt) Absorb(key, static_cast<unsigned char>(c));
  Absorb(key, salt.size());
  Absorb(key, static_cast<uint32_t>(first_position));
  return key;
}

BlockKey PrefixIndex::Next(const BlockKey& parent, std::span<const int32_t> tokens) const {
  BlockKey key = parent;
  for (const int32_t token : tokens) Absorb(key, static_cast<uint32_t>(token));
  return key;
}

std::optional<int32_t> PrefixIndex::Find(const BlockKey& key) const {
  const auto found = blocks_.find(key);
  return found == blocks_.end() ? std::nullopt : std::optional(found->second);
}

void PrefixIndex::Insert(const BlockKey& key, int32_t block) {
  BEAMLINE_CHECK(!keys_[block].has_value());
  if (blocks_.try_emplace(key, block).second) keys_[block] = key;
}

void PrefixIndex::Erase(int32_t block) {
  if (!keys_[block].has_value()) return;
  blocks_.erase(*keys_[block]);
  keys_[block].reset();
}

void PrefixIndex::Clear() {
  blocks_.clear();
  keys_.assign(keys_.size(), std::nullopt);
}

}  // namespace beamline
