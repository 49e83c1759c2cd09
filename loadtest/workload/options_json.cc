#include "loadtest/workload/options_json.h"

#include <string>

#include "fmt/format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace beamline::loadtest {
namespace {

nlohmann::json ToJson(const YAML::Node& node) {
  if (node.IsMap()) {
    auto object = nlohmann::json::object();
    for (const auto& entry : node) object[entry.first.as<std::string>()] = ToJson(entry.second);
    return object;
  }
  if (node.IsSequence()) {
    auto array = nlohmann::json::array();
    for (const auto& entry : node) array.push_back(ToJson(entry));
    return array;
  }
  const std::string text = node.IsScalar() ? node.Scalar() : "";
  if (node.Tag() == "!") return text;  // quoted
  auto value = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_number() || value.is_boolean()) return value;
  return text;
}

}  // namespace

absl::Status ReadMessage(const YAML::Node& node, google::protobuf::Message& message) {
  const std::string json = ToJson(node).dump();
  const auto status = google::protobuf::util::JsonStringToMessage(json, &message);
  if (status.ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} in {}", status.message().ToString(), json));
}

}  // namespace beamline::loadtest
