#include "loadtest/workload/options_json.h"

#include <string>

#include "base/json.h"
#include "base/text.h"
#include "fmt/format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {
namespace {

constexpr int kMaxDepth = 32;
constexpr int kMaxNodes = 100'000;

// Converts YAML to JSON. Aliases can make a small text expand to a large one, or to an endless one
// if an alias is within its own anchor. So depth and size are limited.
class Converter {
 public:
  // Null after an error.
  nlohmann::json Convert(const YAML::Node& node, int depth = 0) {
    if (depth > kMaxDepth) Fail(fmt::format("nested deeper than {}", kMaxDepth));
    if (++num_nodes_ > kMaxNodes) Fail(fmt::format("more than {} values", kMaxNodes));
    if (!status_.ok()) return nullptr;
    if (node.IsMap()) return ConvertMap(node, depth);
    if (!node.IsSequence()) return ConvertScalar(node);
    auto array = nlohmann::json::array();
    for (const auto& entry : node) {
      array.push_back(Convert(entry, depth + 1));
      if (!status_.ok()) break;
    }
    return array;
  }

  const absl::Status& status() const { return status_; }

 private:
  nlohmann::json ConvertMap(const YAML::Node& node, int depth) {
    auto object = nlohmann::json::object();
    for (const auto& entry : node) {
      const auto key = entry.first.as<std::string>();
      if (object.contains(key)) Fail(fmt::format("{} is given twice", Shorten(key, 100)));
      object[key] = Convert(entry.second, depth + 1);
      if (!status_.ok()) break;
    }
    return object;
  }

  static nlohmann::json ConvertScalar(const YAML::Node& node) {
    const std::string text = node.IsScalar() ? node.Scalar() : "";
    if (node.Tag() == "!") return text;  // quoted
    const auto value = ParseJson(text, "");
    if (value.ok() && (value->is_number() || value->is_boolean())) return *value;
    return text;
  }

  void Fail(const std::string& message) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(message);
  }

  int num_nodes_ = 0;
  absl::Status status_;
};

}  // namespace

absl::Status ReadMessage(const YAML::Node& node, google::protobuf::Message& message) {
  Converter converter;
  const nlohmann::json options = converter.Convert(node);
  if (!converter.status().ok()) return converter.status();
  const std::string json = options.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} in {}", Shorten(status.message().ToString(), 200), Shorten(json, 100)));
}

}  // namespace beamline::loadtest
