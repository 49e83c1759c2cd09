#include "engine/checkpoint/formats/config_fault.h"

#include <nlohmann/json.hpp>
#include <string>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr size_t kMostValue = 80;  // bytes of a value in a message

std::string Shown(const nlohmann::json& value) {
  if (value.is_null()) return "missing";
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > kMostValue) text = text.substr(0, kMostValue) + "...";
  return text;
}

}  // namespace

absl::Status ConfigFault(std::string_view key, const nlohmann::json& value,
                         std::string_view accepted) {
  return absl::UnimplementedError(fmt::format(
      "config.json: quantization_config.{} is {}; accepted: {}", key, Shown(value), accepted));
}

absl::Status ConfigFault(std::string_view key, const nlohmann::json& value,
                         std::span<const std::string_view> accepted) {
  return ConfigFault(key, value, fmt::format("{}", fmt::join(accepted, ", ")));
}

absl::Status UnknownKey(std::string_view key, std::span<const std::string_view> known) {
  return absl::UnimplementedError(
      fmt::format("config.json: quantization_config has the unknown key \"{}\"; accepted: {}", key,
                  fmt::join(known, ", ")));
}

}  // namespace beamline
