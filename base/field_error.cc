#include "base/field_error.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "absl/strings/cord.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr char kFieldPayload[] = "beamline.field";
constexpr char kValuePayload[] = "beamline.field_value";
constexpr char kAcceptedPayload[] = "beamline.field_accepted";
constexpr char kTextPayload[] = "beamline.field_text";

std::string Payload(const absl::Status& status, const char* name) {
  const auto payload = status.GetPayload(name);
  return payload.has_value() ? std::string(*payload) : "";
}

// The message without the accepted values.
std::string Text(const FieldFault& fault) {
  return fault.text.empty() ? fmt::format("{} is {}", fault.field, fault.value) : fault.text;
}

std::optional<uint16_t> NumberOf(std::string_view text) {
  uint16_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::string FieldMessage(const FieldFault& fault) {
  std::string message = Text(fault);
  if (!fault.accepted.empty()) message += "; accepted: " + fault.accepted;
  return message;
}

absl::Status FieldError(const FieldFault& fault) {
  absl::Status status = absl::InvalidArgumentError(FieldMessage(fault));
  status.SetPayload(kFieldPayload, absl::Cord(fault.field));
  status.SetPayload(kValuePayload, absl::Cord(fault.value));
  status.SetPayload(kAcceptedPayload, absl::Cord(fault.accepted));
  status.SetPayload(kTextPayload, absl::Cord(fault.text));
  return status;
}

absl::Status FieldError(std::string_view field, std::string_view value, std::string_view accepted) {
  return FieldError({.field = std::string(field),
                     .value = std::string(value),
                     .accepted = std::string(accepted),
                     .text = ""});
}

std::optional<FieldFault> GetFieldFault(const absl::Status& status) {
  if (!status.GetPayload(kFieldPayload).has_value()) return std::nullopt;
  return FieldFault{.field = Payload(status, kFieldPayload),
                    .value = Payload(status, kValuePayload),
                    .accepted = Payload(status, kAcceptedPayload),
                    .text = Payload(status, kTextPayload)};
}

absl::Status InField(std::string_view field, std::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  if (!absl::IsInvalidArgument(status)) {
    return absl::Status(status.code(), fmt::format("{}{}", prefix, std::string(status.message())));
  }
  const std::optional<FieldFault> known = GetFieldFault(status);
  FieldFault fault = known.value_or(FieldFault());
  fault.text =
      fmt::format("{}{}", prefix, known.has_value() ? Text(*known) : std::string(status.message()));
  fault.field = field;
  return FieldError(fault);
}

absl::Status CheckInt(std::string_view field, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return FieldError(field, fmt::to_string(value), fmt::format("{} to {}", min, max));
}

absl::Status CheckFloat(std::string_view field, float value, float min, float max, Lower lower) {
  const bool above = lower == Lower::kIncluded ? value >= min : value > min;
  if (above && value <= max) return absl::OkStatus();
  return FieldError(field, fmt::to_string(value),
                    lower == Lower::kIncluded ? fmt::format("{} to {}", min, max)
                                              : fmt::format("above {}, at most {}", min, max));
}

absl::Status CheckCount(std::string_view field, size_t size, size_t max) {
  if (size <= max) return absl::OkStatus();
  return FieldError({.field = std::string(field),
                     .value = fmt::to_string(size),
                     .accepted = fmt::format("at most {}", max),
                     .text = fmt::format("{} has {} entries", field, size)});
}

bool IsChoice(std::string_view text, std::string_view choice) {
  constexpr std::string_view kTo = " to ";
  if (const size_t to = choice.find(kTo); to != std::string_view::npos) {
    const auto number = NumberOf(text);
    return number.has_value() && *number >= NumberOf(choice.substr(0, to)) &&
           *number <= NumberOf(choice.substr(to + kTo.size()));
  }
  if (!choice.ends_with(":N")) return text == choice;
  choice.remove_suffix(1);
  if (!text.starts_with(choice)) return false;
  text.remove_prefix(choice.size());
  return NumberOf(text).has_value();
}

absl::Status CheckChoice(std::string_view field, std::string_view value,
                         std::span<const std::string_view> choices) {
  const auto matches = [value](std::string_view choice) { return IsChoice(value, choice); };
  if (std::ranges::any_of(choices, matches)) return absl::OkStatus();
  return FieldError(field, fmt::format("'{}'", value), fmt::format("{}", fmt::join(choices, ", ")));
}

}  // namespace beamline
