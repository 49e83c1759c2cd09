// Typed access to the fields of a configuration file.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/api/request.h"
#include "kernels/backend.h"

namespace beamline {

// Fields of one JSON object. A null field counts as absent. The first fault (a wrong type, an
// unsupported value or one out of range) is kept and names file, field and value. Values read after
// it are meaningless, so a caller reads everything and then checks status() once.
class ConfigFields {
 public:
  // `object` must outlive this; `file` is for messages.
  ConfigFields(const nlohmann::json& object, std::string file);

  bool Has(std::string_view name) const;
  // Whether the field is null. For some fields of transformers, null differs from absent.
  bool IsNull(std::string_view name) const;
  bool IsEmptyObject(std::string_view name) const;

  // `name` may also be written as `other`, as transformers' classes allow; if both exist, they must
  // agree.
  void Alias(std::string_view name, std::string_view other);

  // With a fallback the field may be absent; otherwise it is required.
  int32_t Int(std::string_view name, int32_t min, int32_t max,
              std::optional<int32_t> fallback = std::nullopt);
  // A size: 1 .. 2^20.
  int32_t Size(std::string_view name, std::optional<int32_t> fallback = std::nullopt);
  // A count: 0 .. 2^20.
  int32_t Count(std::string_view name, int32_t fallback) { return Int(name, 0, 1 << 20, fallback); }
  bool Bool(std::string_view name, bool fallback);
  float Float(std::string_view name, float fallback);
  // The epsilon of a norm: 0 .. 1.
  float Epsilon(std::string_view name, float fallback);
  std::string String(std::string_view name, std::string fallback);

  std::optional<int32_t> OptionalInt(std::string_view name, int32_t min, int32_t max);
  std::optional<float> OptionalFloat(std::string_view name);
  std::optional<double> OptionalDouble(std::string_view name);
  // A list of finite numbers; empty when absent.
  std::vector<double> Doubles(std::string_view name);
  // A list of strings; empty when absent.
  std::vector<std::string> Strings(std::string_view name);
  // One id or a list of them, each >= 0; empty when absent.
  TokenIds Ids(std::string_view name);

  // The activation function with this name in transformers.
  Activation ActivationFunction(std::string_view name, std::string fallback);
  // For options of which Beamline supports one value: another value is a fault.
  void RequireBool(std::string_view name, bool supported, bool fallback);
  void RequireString(std::string_view name, std::string_view supported, std::string_view fallback);

  // Any other field that is not null is a fault.
  void RequireKnown(std::initializer_list<std::string_view> names) {
    RequireKnown(std::span<const std::string_view>(names.begin(), names.size()));
  }
  void RequireKnown(std::span<const std::string_view> names);

  // The fields of the object in this field; empty when absent. Include() adds its fault to this
  // object.
  ConfigFields Nested(std::string_view name);
  void Include(const ConfigFields& nested);

  void Fault(std::string_view name, std::string_view fault);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(std::string_view name) const;  // null if absent
  std::string_view Written(std::string_view name) const;    // the spelling that the file uses

  const nlohmann::json& object_;
  std::vector<std::pair<std::string_view, std::string_view>> aliases_;
  std::string file_;
  absl::Status status_;
};

}  // namespace beamline
