// Finds which strings of a set are prefixes of a text.
#pragma once

#include <unicode/bytestrie.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace beamline::text {

inline constexpr size_t kMaxTokenBytes = 0xFFFF;  // limit of icu::BytesTrieBuilder

class ByteTrie {
 public:
  // Keys must be distinct; empty ones are ignored.
  static absl::StatusOr<ByteTrie> Build(
      const std::vector<std::pair<std::string_view, int32_t>>& entries);

  // Calls visit(length, value) for each key that is a prefix of `text`, shortest first. Returns the
  // number of bytes read; with long keys it may exceed the length of every key found.
  template <typename Visit>
  size_t ForEachPrefix(std::string_view text, Visit visit) const {
    if (trie_ == nullptr) return 0;
    icu::BytesTrie walk(*trie_);
    for (size_t i = 0; i < text.size(); ++i) {
      const UStringTrieResult result = i == 0 ? walk.first(static_cast<uint8_t>(text[i]))
                                              : walk.next(static_cast<uint8_t>(text[i]));
      if (USTRINGTRIE_HAS_VALUE(result)) visit(i + 1, walk.getValue());
      if (!USTRINGTRIE_HAS_NEXT(result)) return i + 1;
    }
    return text.size();
  }

 private:
  std::unique_ptr<icu::BytesTrie> trie_;  // null: no keys
};

}  // namespace beamline::text
