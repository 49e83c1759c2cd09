#include "server/http/json_fields.h"

#include <cmath>
#include <limits>
#include <optional>

#include "base/json.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
namespace {

std::optional<int32_t> ToInt(const nlohmann::json& value) {
  constexpr auto kMin = std::numeric_limits<int32_t>::min();
  constexpr auto kMax = std::numeric_limits<int32_t>::max();
  const std::optional<int64_t> number = WholeNumber(value, kMin, kMax);
  return number.has_value() ? std::optional(static_cast<int32_t>(*number)) : std::nullopt;
}

constexpr std::string_view kWhole = "a whole number of at most 31 bits";

}  // namespace

std::string ShowJson(const nlohmann::json& value) {
  if (value.is_array()) return fmt::format("a list of {}", value.size());
  if (value.is_object()) return "an object";
  if (value.is_string()) return fmt::format("'{}'", Shorten(value.get<std::string>()));
  return value.dump();
}

std::optional<float> ToFloat(const nlohmann::json& value) {
  const auto number = value.get<double>();
  if (!(std::abs(number) <= std::numeric_limits<float>::max())) return std::nullopt;
  return static_cast<float>(number);
}

const nlohmann::json* JsonFields::Find(std::string_view name) {
  known_.emplace(name);
  const auto found = object_.find(std::string(name));
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::Bool(std::string_view name, const std::function<void(bool)>& set) {
  const auto* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_boolean()) return Refuse(name, *value, "true, false");
  set(value->get<bool>());
}

void JsonFields::Int(std::string_view name, const std::function<void(int32_t)>& set) {
  const auto* value = Find(name);
  if (value == nullptr) return;
  const std::optional<int32_t> number = ToInt(*value);
  if (!number.has_value()) return Refuse(name, *value, kWhole);
  set(*number);
}

void JsonFields::Unsigned(std::string_view name, const std::function<void(uint64_t)>& set) {
  const auto* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number_unsigned()) {
    return Refuse(name, *value, "a whole number from 0 to 18446744073709551615");
  }
  set(value->get<uint64_t>());
}

void JsonFields::Number(std::string_view name, const std::function<void(float)>& set) {
  const auto* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_number()) return Refuse(name, *value, "a number");
  const std::optional<float> number = ToFloat(*value);
  if (!number.has_value()) return Refuse(name, *value, kNumberOfFloat);
  set(*number);
}

void JsonFields::Text(std::string_view name, const std::function<void(const std::string&)>& set) {
  const auto* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_string()) return Refuse(name, *value, "a text");
  set(value->get_ref<const std::string&>());
}

void JsonFields::Texts(std::string_view name, bool or_one,
                       const std::function<void(const std::string&)>& add) {
  const auto* value = Find(name);
  if (value == nullptr) return;
  if (or_one && value->is_string()) return add(value->get_ref<const std::string&>());
  if (!value->is_array()) {
    return Refuse(name, *value, or_one ? "a text, a list of texts" : "a list of texts");
  }
  for (size_t i = 0; i < value->size(); ++i) {
    const nlohmann::json& one = (*value)[i];
    if (!one.is_string()) return Refuse(fmt::format("{}[{}]", name, i), one, "a text");
    add(one.get_ref<const std::string&>());
  }
}

void JsonFields::Ints(std::string_view name, const std::function<void(int32_t)>& add) {
  const auto* value = Find(name);
  if (value == nullptr) return;
  if (!value->is_array()) return Refuse(name, *value, "a list of whole numbers");
  for (size_t i = 0; i < value->size(); ++i) {
    const std::optional<int32_t> number = ToInt((*value)[i]);
    if (!number.has_value()) return Refuse(fmt::format("{}[{}]", name, i), (*value)[i], kWhole);
    add(*number);
  }
}

void JsonFields::Refuse(std::string_view name, const nlohmann::json& value,
                        std::string_view accepted) {
  Fail(FieldError(Path(name), ShowJson(value), accepted));
}

absl::Status JsonFields::Finish() {
  if (!status_.ok()) return status_;
  for (const auto& [name, value] : object_.items()) {
    if (known_.contains(name)) continue;
    const std::string path = Path(Shorten(name));
    return FieldError(
        {.field = path, .text = fmt::format("{} is no field that this server knows", path)});
  }
  return absl::OkStatus();
}

}  // namespace beamline
