// Caches per thread how recent words were tokenized, because words repeat in language.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/text/token_model.h"

namespace beamline::text {

// Direct mapped: a new word replaces the one in its slot. One table serves all models of the
// thread, so memory does not grow with models. No locks, no invalidation.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 32;
  static constexpr size_t kMaxTokens = 8;

  static WordCache& OfThread() {
    thread_local WordCache cache;
    return cache;
  }
  // A new id that distinguishes a model's entries from those of all other models, also past ones.
  static uint64_t NewOwner() {
    static std::atomic<uint64_t> next{1};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  // Appends the tokens of the word and returns true, or returns false.
  bool Find(uint64_t owner, std::string_view word, std::vector<WordToken>* tokens) const {
    if (word.size() > kMaxWordBytes) return false;
    const Entry& entry = entries_[Slot(owner, word)];
    if (entry.owner != owner || entry.size != word.size() ||
        std::memcmp(entry.word.data(), word.data(), word.size()) != 0) {
      return false;
    }
    int32_t begin = 0;
    for (size_t i = 0; i < entry.num_tokens; ++i) {
      tokens->push_back({entry.ids[i], begin, entry.ends[i]});
      begin = entry.ends[i];
    }
    return true;
  }

  // Stores the tokens only if they are contiguous from byte 0 on.
  void Store(uint64_t owner, std::string_view word, const WordToken* tokens, size_t num_tokens) {
    if (word.size() > kMaxWordBytes || num_tokens > kMaxTokens) return;
    Entry& entry = entries_[Slot(owner, word)];
    entry.owner = 0;
    int32_t begin = 0;
    for (size_t i = 0; i < num_tokens; ++i) {
      if (tokens[i].begin != begin) return;
      begin = tokens[i].end;
      entry.ids[i] = tokens[i].id;
      entry.ends[i] = static_cast<uint8_t>(tokens[i].end);
    }
    entry.owner = owner;
    entry.size = static_cast<uint8_t>(word.size());
    entry.num_tokens = static_cast<uint8_t>(num_tokens);
    std::memcpy(entry.word.data(), word.data(), word.size());
  }

 private:
  static constexpr size_t kNumEntries = 1 << 13;  // x 88 bytes: fits into a core's L2 cache

  struct Entry {
    uint64_t owner = 0;  // 0: empty
    uint8_t size;
    uint8_t num_tokens;
    std::array<uint8_t, kMaxTokens> ends;
    std::array<int32_t, kMaxTokens> ids;
    std::array<char, kMaxWordBytes> word;
  };

  static size_t Slot(uint64_t owner, std::string_view word) {
    // Multiply-xor over eight bytes at a time; a collision costs time, never correctness.
    uint64_t hash = owner * 0x9E3779B97F4A7C15u + word.size();
    for (size_t i = 0; i < word.size(); i += 8) {
      uint64_t chunk = 0;
      std::memcpy(&chunk, word.data() + i, word.size() - i < 8 ? word.size() - i : 8);
      hash = (hash ^ chunk) * 0xFF51AFD7ED558CCDu;
      hash ^= hash >> 32;
    }
    return hash & (kNumEntries - 1);
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kNumEntries);
};

}  // namespace beamline::text
