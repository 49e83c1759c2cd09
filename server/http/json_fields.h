// Reads the fields of a JSON object that a client sent: each by its name and its type, null as if
// it were not there. The first fault counts.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/field_error.h"

namespace beamline {

class JsonFields {
 public:
  // `within` goes before the names of fields in errors: "stream_options.". The object outlives it.
  explicit JsonFields(const nlohmann::json& object, std::string within = "")
      : object_(object), within_(std::move(within)) {}

  // Null without a value.
  const nlohmann::json* Find(std::string_view name);
  bool Has(std::string_view name) { return Find(name) != nullptr; }

  // Each calls `set` with the value, if there is one.
  void Bool(std::string_view name, const std::function<void(bool)>& set);
  void Int(std::string_view name, const std::function<void(int32_t)>& set);
  void Unsigned(std::string_view name, const std::function<void(uint64_t)>& set);
  void Number(std::string_view name, const std::function<void(float)>& set);
  void Text(std::string_view name, const std::function<void(const std::string&)>& set);
  // A list of texts; one text is a list too where `or_one`.
  void Texts(std::string_view name, bool or_one,
             const std::function<void(const std::string&)>& add);
  void Ints(std::string_view name, const std::function<void(int32_t)>& add);

  void Fail(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  // "NAME is VALUE; accepted: ACCEPTED".
  void Refuse(std::string_view name, const nlohmann::json& value, std::string_view accepted);
  // The first fault; without one, that there are fields which nobody has asked for.
  absl::Status Finish();

  // "temperature".
  std::string Path(std::string_view name) const { return within_ + std::string(name); }

 private:
  const nlohmann::json& object_;
  const std::string within_;
  std::set<std::string, std::less<>> known_;
  absl::Status status_;
};

// Of a number; nullopt beyond float32, of which errors say kNumberOfFloat.
std::optional<float> ToFloat(const nlohmann::json& value);
inline constexpr std::string_view kNumberOfFloat = "a number of float32";

// A value for an error: short, on one line.
std::string ShowJson(const nlohmann::json& value);

}  // namespace beamline
