#include "engine/decoding/option_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/field_error.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

int64_t Largest(const NumberRange& range) {
  constexpr int32_t kLargest = std::numeric_limits<int32_t>::max();
  return range.max == NumberRange::kNoEnd ? kLargest : static_cast<int64_t>(range.max);
}

// The accepted range of a size: "1 to 256", "at most 256".
std::string Accepted(const SizeRange& range) {
  return range.min == 0 ? fmt::format("at most {}", range.max)
                        : fmt::format("{} to {}", range.min, range.max);
}

bool IsWithin(const SizeRange& range, size_t size) {
  return size >= range.min && size <= range.max;
}

}  // namespace

absl::Status CheckValue(const RequestLimit& limit, std::string_view name, int32_t value) {
  return CheckInt(name, value, static_cast<int64_t>(limit.value->min), Largest(*limit.value));
}

absl::Status CheckValue(const RequestLimit& limit, std::string_view name, float value) {
  const NumberRange& range = *limit.value;
  if (range.max == NumberRange::kNoEnd) {
    if (value >= range.min && std::isfinite(value)) return absl::OkStatus();
    return FieldError(name, fmt::to_string(value), fmt::format("at least {}, finite", range.min));
  }
  return CheckFloat(name, value, static_cast<float>(range.min), static_cast<float>(range.max),
                    range.excludes_min ? Lower::kExcluded : Lower::kIncluded);
}

absl::Status CheckValueUpTo(const RequestLimit& limit, int32_t value, int32_t most) {
  return CheckInt(limit.field, value, static_cast<int64_t>(limit.value->min),
                  std::min<int64_t>(Largest(*limit.value), most));
}

absl::Status CheckEntries(const RequestLimit& limit, size_t count) {
  if (IsWithin(*limit.size, count)) return absl::OkStatus();
  return FieldError({.field = std::string(limit.field),
                     .value = fmt::to_string(count),
                     .accepted = Accepted(*limit.size),
                     .text = fmt::format("{} has {} entries", limit.field, count)});
}

absl::Status CheckBytes(const RequestLimit& limit, std::string_view text) {
  if (IsWithin(*limit.size, text.size())) return absl::OkStatus();
  return FieldError({.field = std::string(limit.field),
                     .value = fmt::to_string(text.size()),
                     .accepted = Accepted(*limit.size),
                     .text = fmt::format("{} has {} bytes", limit.field, text.size())});
}

absl::Status CheckTexts(const RequestLimit& limit, const std::vector<std::string>& texts) {
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(limit, texts.size()));
  for (size_t i = 0; i < texts.size(); ++i) {
    if (IsWithin(*limit.entry_size, texts[i].size())) continue;
    const std::string entry = fmt::format("{}[{}]", limit.field, i);
    return FieldError({.field = entry,
                       .value = fmt::to_string(texts[i].size()),
                       .accepted = Accepted(*limit.entry_size),
                       .text = fmt::format("{} is {} bytes long", entry, texts[i].size())});
  }
  return absl::OkStatus();
}

absl::Status CheckIds(const RequestLimit& limit, std::span<const int32_t> ids, int32_t vocab_size) {
  BEAMLINE_RETURN_IF_ERROR(CheckEntries(limit, ids.size()));
  return CheckTokenIds(limit.field, ids, vocab_size);
}

absl::Status CheckTokenIds(std::string_view field, std::span<const int32_t> ids,
                           int32_t vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i) {
    BEAMLINE_RETURN_IF_ERROR(CheckInt(fmt::format("{}[{}]", field, i), ids[i], 0, vocab_size - 1));
  }
  return absl::OkStatus();
}

}  // namespace beamline
