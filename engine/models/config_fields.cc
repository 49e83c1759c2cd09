#include "engine/models/config_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// The supported entries of transformers.activations.ACT2FN.
constexpr std::array<std::pair<std::string_view, Activation>, 12> kActivations = {{
    {"gelu", Activation::kGelu},
    {"gelu_python", Activation::kGelu},
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_fast", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu_python_tanh", Activation::kGeluTanh},
    {"gelu_accurate", Activation::kGeluTanh},
    {"relu", Activation::kRelu},
    {"silu", Activation::kSilu},
    {"swish", Activation::kSilu},
    {"tanh", Activation::kTanh},
    {"linear", Activation::kNone},
}};

constexpr int32_t kMaxSize = 1 << 20;
constexpr int32_t kMaxId = std::numeric_limits<int32_t>::max();

}  // namespace

ConfigFields::ConfigFields(const nlohmann::json& object, std::string file)
    : object_(object), file_(std::move(file)) {}

std::string_view ConfigFields::Written(std::string_view name) const {
  const auto is_there = [this](std::string_view key) {
    const auto field = object_.find(key);
    return field != object_.end() && !field->is_null();
  };
  for (const auto& [own, other] : aliases_) {
    if (own == name && !is_there(name) && is_there(other)) return other;
  }
  return name;
}

const nlohmann::json* ConfigFields::Find(std::string_view name) const {
  const auto field = object_.find(Written(name));
  return field == object_.end() || field->is_null() ? nullptr : &*field;
}

bool ConfigFields::Has(std::string_view name) const { return Find(name) != nullptr; }

bool ConfigFields::IsNull(std::string_view name) const {
  const auto field = object_.find(name);
  return field != object_.end() && field->is_null();
}

void ConfigFields::Alias(std::string_view name, std::string_view other) {
  const nlohmann::json* own = Find(name);
  const nlohmann::json* alias = Find(other);
  if (own != nullptr && alias != nullptr && *own != *alias) {
    Fault(other, fmt::format("it is {}'s other name, which is {}", name, own->dump()));
  }
  aliases_.emplace_back(name, other);
}

void ConfigFields::Fault(std::string_view name, std::string_view fault) {
  if (!status_.ok()) return;
  const nlohmann::json* field = Find(name);
  status_ = absl::InvalidArgumentError(
      field == nullptr
          ? fmt::format("{}: {} is {}; {}", file_, name, IsNull(name) ? "null" : "missing", fault)
          : fmt::format("{}: {} is {}; {}", file_, Written(name), field->dump(), fault));
}

bool ConfigFields::IsEmptyObject(std::string_view name) const {
  const nlohmann::json* field = Find(name);
  return field != nullptr && field->is_object() && field->empty();
}

std::optional<int32_t> ConfigFields::OptionalInt(std::string_view name, int32_t min, int32_t max) {
  const nlohmann::json* field = Find(name);
  if (field == nullptr) return std::nullopt;
  if (const auto number = WholeNumber(*field, min, max)) return static_cast<int32_t>(*number);
  Fault(name, fmt::format("a whole number from {} to {} is expected", min, max));
  return std::nullopt;
}

int32_t ConfigFields::Int(std::string_view name, int32_t min, int32_t max,
                          std::optional<int32_t> fallback) {
  if (!Has(name) && !fallback.has_value()) {
    Fault(name, fmt::format("a whole number from {} to {} is expected", min, max));
  }
  return OptionalInt(name, min, max).value_or(fallback.value_or(min));
}

int32_t ConfigFields::Size(std::string_view name, std::optional<int32_t> fallback) {
  return Int(name, 1, kMaxSize, fallback);
}

bool ConfigFields::Bool(std::string_view name, bool fallback) {
  const nlohmann::json* field = Find(name);
  if (field == nullptr) return fallback;
  if (field->is_boolean()) return field->get<bool>();
  Fault(name, "true or false is expected");
  return fallback;
}

std::optional<double> ConfigFields::OptionalDouble(std::string_view name) {
  const nlohmann::json* field = Find(name);
  if (field == nullptr) return std::nullopt;
  if (field->is_number() && std::isfinite(field->get<float>())) return field->get<double>();
  Fault(name, "a finite number is expected");
  return std::nullopt;
}

std::optional<float> ConfigFields::OptionalFloat(std::string_view name) {
  const std::optional<double> value = OptionalDouble(name);
  return value.has_value() ? std::optional(static_cast<float>(*value)) : std::nullopt;
}

std::vector<double> ConfigFields::Doubles(std::string_view name) {
  const nlohmann::json* field = Find(name);
  if (field == nullptr) return {};
  const auto is_finite = [](const nlohmann::json& value) {
    return value.is_number() && std::isfinite(value.get<float>());
  };
  if (field->is_array() && std::ranges::all_of(*field, is_finite)) {
    return field->get<std::vector<double>>();
  }
  Fault(name, "a list of finite numbers is expected");
  return {};
}

std::vector<std::string> ConfigFields::Strings(std::string_view name) {
  const nlohmann::json* field = Find(name);
  if (field == nullptr) return {};
  const auto is_string = [](const nlohmann::json& value) { return value.is_string(); };
  if (field->is_array() && std::ranges::all_of(*field, is_string)) {
    return field->get<std::vector<std::string>>();
  }
  Fault(name, "a list of strings is expected");
  return {};
}

ConfigFields ConfigFields::Nested(std::string_view name) {
  static const nlohmann::json* const none = new nlohmann::json(nlohmann::json::object());
  const nlohmann::json* field = Find(name);
  if (field != nullptr && !field->is_object()) {
    Fault(name, "an object is expected");
    field = nullptr;
  }
  return ConfigFields(field == nullptr ? *none : *field, fmt::format("{}: {}", file_, name));
}

void ConfigFields::Include(const ConfigFields& nested) {
  if (status_.ok()) status_ = nested.status_;
}

float ConfigFields::Float(std::string_view name, float fallback) {
  return OptionalFloat(name).value_or(fallback);
}

float ConfigFields::Epsilon(std::string_view name, float fallback) {
  const float epsilon = Float(name, fallback);
  if (epsilon < 0 || epsilon > 1) Fault(name, "a number from 0 to 1 is expected");
  return epsilon;
}

std::string ConfigFields::String(std::string_view name, std::string fallback) {
  const nlohmann::json* field = Find(name);
  if (field == nullptr) return fallback;
  if (field->is_string()) return field->get<std::string>();
  Fault(name, "a string is expected");
  return fallback;
}

TokenIds ConfigFields::Ids(std::string_view name) {
  const nlohmann::json* field = Find(name);
  if (field == nullptr) return {};
  const nlohmann::json list = field->is_array() ? *field : nlohmann::json::array({*field});
  TokenIds ids;
  for (const nlohmann::json& id : list) {
    const auto number = WholeNumber(id, 0, kMaxId);
    if (!number.has_value()) {
      Fault(name, "a token id or a list of them is expected");
      return {};
    }
    ids.push_back(static_cast<int32_t>(*number));
  }
  return ids;
}

Activation ConfigFields::ActivationFunction(std::string_view name, std::string fallback) {
  const std::string value = String(name, std::move(fallback));
  std::string accepted;
  for (const auto& [spelled, activation] : kActivations) {
    if (value == spelled) return activation;
    accepted += fmt::format("{}{}", accepted.empty() ? "" : ", ", spelled);
  }
  Fault(name, "supported are " + accepted);
  return Activation::kNone;
}

void ConfigFields::RequireBool(std::string_view name, bool supported, bool fallback) {
  if (Bool(name, fallback) != supported)
    Fault(name, fmt::format("only {} is supported", supported));
}

void ConfigFields::RequireString(std::string_view name, std::string_view supported,
                                 std::string_view fallback) {
  if (String(name, std::string(fallback)) != supported) {
    Fault(name, fmt::format("only \"{}\" is supported", supported));
  }
}

void ConfigFields::RequireKnown(std::span<const std::string_view> names) {
  for (const auto& [name, value] : object_.items()) {
    if (value.is_null() || std::find(names.begin(), names.end(), name) != names.end()) continue;
    Fault(name, "no such field is supported");
  }
}

}  // namespace beamline
