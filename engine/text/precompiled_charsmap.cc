#include "engine/text/precompiled_charsmap.h"

#include <unicode/ubrk.h>
#include <unicode/utext.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline::text {
namespace {

constexpr size_t kMaxClusterBytes = 5;

// Bit layout of a unit: Darts-clone, darts.h, DoubleArrayUnit.
bool HasLeaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t LeafValue(uint32_t unit) { return unit & ((1u << 31) - 1); }
uint32_t Label(uint32_t unit) { return unit & ((1u << 31) | 0xFF); }
uint32_t Offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

// This thread's ICU grapheme cluster iterator.
class ClusterIterator {
 public:
  ClusterIterator() { iterator_ = ubrk_open(UBRK_CHARACTER, "root", nullptr, 0, &error_); }
  ~ClusterIterator() {
    ubrk_close(iterator_);
    utext_close(text_);
  }
  ClusterIterator(const ClusterIterator&) = delete;
  ClusterIterator& operator=(const ClusterIterator&) = delete;

  // Calls visit(begin, end) for each cluster of `text`.
  template <typename Visit>
  absl::Status ForEach(std::string_view text, Visit visit) {
    if (U_SUCCESS(error_)) {
      text_ = utext_openUTF8(text_, text.data(), static_cast<int64_t>(text.size()), &error_);
    }
    if (U_SUCCESS(error_)) ubrk_setUText(iterator_, text_, &error_);
    if (U_FAILURE(error_)) {
      return absl::InternalError(fmt::format("ICU cluster iterator: {}", u_errorName(error_)));
    }
    for (int32_t begin = ubrk_first(iterator_), end = ubrk_next(iterator_); end != UBRK_DONE;
         begin = end, end = ubrk_next(iterator_)) {
      visit(static_cast<size_t>(begin), static_cast<size_t>(end));
    }
    return absl::OkStatus();
  }

 private:
  UErrorCode error_ = U_ZERO_ERROR;
  UBreakIterator* iterator_ = nullptr;
  UText* text_ = nullptr;
};

class CharsmapNormalizer : public Normalizer {
 public:
  explicit CharsmapNormalizer(PrecompiledCharsmap map) : map_(std::move(map)) {}
  absl::Status Normalize(AlignedText* text) const override { return map_.Normalize(text); }

 private:
  PrecompiledCharsmap map_;
};

}  // namespace

absl::StatusOr<PrecompiledCharsmap> PrecompiledCharsmap::Parse(std::string_view blob) {
  uint32_t trie_bytes = 0;
  if (blob.size() >= sizeof(trie_bytes)) std::memcpy(&trie_bytes, blob.data(), sizeof(trie_bytes));
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 ||
      trie_bytes > blob.size() - sizeof(trie_bytes)) {
    return absl::InvalidArgumentError(fmt::format(
        "character map of {} bytes claims a trie of {} bytes", blob.size(), trie_bytes));
  }
  PrecompiledCharsmap map;
  map.units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(map.units_.data(), blob.data() + sizeof(trie_bytes), trie_bytes);
  map.replacements_ = blob.substr(sizeof(trie_bytes) + trie_bytes);
  if (const auto bad = FindInvalidUtf8(map.replacements_)) {
    return absl::InvalidArgumentError(
        fmt::format("character map: replacements are not UTF-8 at byte {}", *bad));
  }
  for (size_t c = 1; c < map.changes_ascii_.size(); ++c) {
    const char key = static_cast<char>(c);
    map.changes_ascii_[c] = map.Find(std::string_view(&key, 1)).has_value();
  }
  return map;
}

template <typename Visit>
size_t PrecompiledCharsmap::ForEachKey(std::string_view text, Visit visit) const {
  size_t node = Offset(units_[0]);
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= units_.size()) return i;
    const uint32_t unit = units_[node];
    if (Label(unit) != byte) return i;
    node ^= Offset(unit);
    if (node >= units_.size()) return i;
    if (!HasLeaf(unit)) continue;
    const size_t begin = LeafValue(units_[node]);
    if (begin >= replacements_.size() || IsContinuationByte(replacements_[begin])) return i;
    // The replacement ends at its NUL.
    if (!visit(i + 1, std::string_view(replacements_.data() + begin))) return i;
  }
  return text.size();
}

std::optional<std::string_view> PrecompiledCharsmap::Find(std::string_view chunk) const {
  std::optional<std::string_view> found;
  ForEachKey(chunk, [&](size_t, std::string_view replacement) {
    found = replacement;
    return false;
  });
  return found;
}

std::optional<std::string_view> PrecompiledCharsmap::FindLongest(std::string_view text,
                                                                 size_t* length,
                                                                 TextWork& work) const {
  std::optional<std::string_view> found;
  const size_t num_read = ForEachKey(text, [&](size_t key_length, std::string_view replacement) {
    *length = key_length;
    found = replacement;
    return work.Spend(replacement.size());  // these bytes were scanned for the NUL
  });
  work.Spend(num_read);
  return found;
}

bool PrecompiledCharsmap::AppendReplacement(std::string_view part,
                                            std::vector<CharChange>* out) const {
  const auto replacement = Find(part);
  if (!replacement.has_value()) return false;
  const size_t first = out->size();
  for (size_t position = 0; position < replacement->size();) {
    out->push_back({ReadChar(*replacement, &position), 0});
  }
  const auto num_old = static_cast<size_t>(
      std::count_if(part.begin(), part.end(), [](char c) { return !IsContinuationByte(c); }));
  const size_t num_new = out->size() - first;
  for (size_t i = num_old; i < num_new; ++i) (*out)[first + i].change = 1;
  // As in the reference, characters removed before any output shift all following ones.
  if (num_new < num_old && !out->empty()) {
    out->back().change -= static_cast<int32_t>(num_old - num_new);
  }
  return true;
}

bool PrecompiledCharsmap::AppendCluster(std::string_view cluster,
                                        std::vector<CharChange>* out) const {
  if (cluster.size() <= kMaxClusterBytes && AppendReplacement(cluster, out)) return true;
  bool changed = false;
  for (size_t position = 0; position < cluster.size();) {
    const size_t begin = position;
    const char32_t c = ReadChar(cluster, &position);
    if (AppendReplacement(cluster.substr(begin, position - begin), out)) {
      changed = true;
    } else {
      out->push_back({c, 0});
    }
  }
  return changed;
}

absl::Status PrecompiledCharsmap::Normalize(AlignedText* text) const {
  thread_local ClusterIterator clusters;
  thread_local std::vector<CharChange> chars;
  chars.clear();
  bool changed = false;
  const std::string_view view = text->text();
  // Between two ASCII characters there is always a cluster boundary, except in CR LF.
  const auto is_simple_boundary = [&](size_t i) {
    const auto is_ascii = [](char c) { return static_cast<uint8_t>(c) < 0x80; };
    return i == 0 || i == view.size() ||
           (is_ascii(view[i - 1]) && is_ascii(view[i]) &&
            !(view[i - 1] == '\r' && view[i] == '\n'));
  };
  for (size_t position = 0; position < view.size();) {
    size_t end = position + 1;
    while (!is_simple_boundary(end)) ++end;
    if (end == position + 1) {  // one ASCII character
      if (!changes_ascii_[static_cast<uint8_t>(view[position])]) {
        chars.push_back({static_cast<char32_t>(view[position]), 0});
      } else if (AppendReplacement(view.substr(position, 1), &chars)) {
        changed = true;
      }
    } else {
      const size_t base = position;
      BEAMLINE_RETURN_IF_ERROR(
          clusters.ForEach(view.substr(base, end - base), [&](size_t from, size_t to) {
            changed |= AppendCluster(view.substr(base + from, to - from), &chars);
          }));
    }
    position = end;
  }
  if (changed) text->Transform(chars);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Normalizer>> MakePrecompiledNormalizer(const JsonNode& node) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string encoded, node.String("precompiled_charsmap"));
  std::string blob;
  if (!absl::Base64Unescape(encoded, &blob)) {
    return node.Error("\"precompiled_charsmap\" is not base64");
  }
  absl::StatusOr<PrecompiledCharsmap> map = PrecompiledCharsmap::Parse(blob);
  if (!map.ok()) return node.Error(std::string(map.status().message()));
  return std::make_unique<CharsmapNormalizer>(*std::move(map));
}

}  // namespace beamline::text
