// Reads the fields of a client's JSON object, each by name and type. null means not given. The
// first error counts.
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
  // `within`: prefix of field names in errors: "stream_options.". `object` outlives this.
  explicit JsonFields(const nlohmann::json& object, std::string within = "")
      : object_(object), within_(std::move(within)) {}

  // Null if there is no value.
  const nlohmann::json* Find(std::string_view name);
  bool Has(std::string_view name) { return Find(name) != nullptr; }

  // Each calls `set` with the value, if there is one.
  void Bool(std::string_view name, const std::function<void(bool)>& set);
  void Int(std::string_view name, const std::function<void(int32_t)>& set);
  void Unsigned(std::string_view name, const std::function<void(uint64_t)>& set);
  void Number(std::string_view name, const std::function<void(float)>& set);
  void Text(std::string_view name, const std::function<void(const std::string&)>& set);
  // A list of strings. With `or_one`, a single string is a list too.
  void Texts(std::string_view name, bool or_one,
             const std::function<void(const std::string&)>& add);
  void Ints(std::string_view name, const std::function<void(int32_t)>& add);

  void Fail(const absl::Status& status) {
    if (status_.ok()) status_ = status;
  }
  // "NAME is VALUE; accepted: ACCEPTED".
  void Refuse(std::string_view name, const nlohmann::json& value, std::string_view accepted);
  // The first error. Without one, an error if there are fields that were never read.
  absl::Status Finish();

  // "temperature".
  std::string Path(std::string_view name) const { return within_ + std::string(name); }

 private:
  const nlohmann::json& object_;
  const std::string within_;
  std::set<std::string, std::less<>> known_;
  absl::Status status_;
};

// Converts a number; nullopt if it is outside float32. Errors say kNumberOfFloat.
std::optional<float> ToFloat(const nlohmann::json& value);
inline constexpr std::string_view kNumberOfFloat = "a number of float32";

// A value for an error: short, on one line.
std::string ShowJson(const nlohmann::json& value);

}  // namespace beamline
