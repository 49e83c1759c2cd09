#include "engine/text/byte_trie.h"

#include <unicode/bytestriebuilder.h>

#include "fmt/format.h"

namespace beamline::text {
absl::StatusOr<ByteTrie> ByteTrie::Build(
    const std::vector<std::pair<std::string_view, int32_t>>& entries) {
  UErrorCode error = U_ZERO_ERROR;
  icu::BytesTrieBuilder builder(error);
  bool any = false;
  for (const auto& [key, value] : entries) {
    if (key.empty()) continue;
    if (key.size() > kMaxTokenBytes) {
      return absl::InvalidArgumentError(
          fmt::format("a token of {} bytes; accepted: at most {}", key.size(), kMaxTokenBytes));
    }
    builder.add(icu::StringPiece(key.data(), static_cast<int32_t>(key.size())), value, error);
    any = true;
  }
  ByteTrie trie;
  if (any) trie.trie_.reset(builder.build(USTRINGTRIE_BUILD_FAST, error));
  if (U_FAILURE(error)) {
    return absl::InvalidArgumentError(
        fmt::format("the tokens cannot be indexed: {}", u_errorName(error)));
  }
  return trie;
}

}  // namespace beamline::text
