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

// Fields of one JSON object. A null field counts as absent. The first fault (a wrong type, a value
// out of range or not supported) is kept and names file, field and value; what is read after it is
// to be thrown away, so a caller reads everything and then looks at status() once.
class ConfigFields {
 public:
  // `object` must outlive this; `file` is for messages.
  ConfigFields(const nlohmann::json& object, std::string file);

  bool Has(std::string_view name) const;
  // The file says null, which for some fields of transformers is another thing than silence.
  bool IsNull(std::string_view name) const;
  bool IsEmptyObject(std::string_view name) const;

  // `name` may be written as `other`, as transformers' classes allow; both must agree.
  void Alias(std::string_view name, std::string_view other);

  // With a fallback the field may be absent, without one it must be there.
  int32_t Int(std::string_view name, int32_t min, int32_t max,
              std::optional<int32_t> fallback = std::nullopt);
  // A size: 1 .. 2^20.
  int32_t Size(std::string_view name, std::optional<int32_t> fallback = std::nullopt);
  // How many there are: 0 .. 2^20.
  int32_t Count(std::string_view name, int32_t fallback) { return Int(name, 0, 1 << 20, fallback); }
  bool Bool(std::string_view name, bool fallback);
  float Float(std::string_view name, float fallback);
  // What a norm adds to a variance: 0 .. 1.
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

  // The activation function that transformers calls by the field's value.
  Activation ActivationFunction(std::string_view name, std::string fallback);
  // For choices that Beamline computes in one way only: another value is a fault.
  void RequireBool(std::string_view name, bool supported, bool fallback);
  void RequireString(std::string_view name, std::string_view supported, std::string_view fallback);

  // Every field that is not null must be one of these.
  void RequireKnown(std::initializer_list<std::string_view> names) {
    RequireKnown(std::span<const std::string_view>(names.begin(), names.size()));
  }
  void RequireKnown(std::span<const std::string_view> names);

  // The fields of the object that the field holds; none when absent. Include() makes its fault this
  // one's.
  ConfigFields Nested(std::string_view name);
  void Include(const ConfigFields& nested);

  void Fault(std::string_view name, std::string_view fault);
  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(std::string_view name) const;  // null: absent
  std::string_view Written(std::string_view name) const;    // the name that the file has for it

  const nlohmann::json& object_;
  std::vector<std::pair<std::string_view, std::string_view>> aliases_;
  std::string file_;
  absl::Status status_;
};

}  // namespace beamline
