#include "server/config/config_file.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "kernels/status.h"
#include "yaml-cpp/yaml.h"

namespace beamline {
namespace {

absl::Status At(const std::string& path, const YAML::Mark& mark, std::string_view problem) {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", path, mark.line + 1, problem));
}

// Sets one entry of a mapping from the setting of its name.
absl::Status Apply(const std::string& path, const YAML::Node& key, const YAML::Node& value,
                   const std::vector<Setting>& settings) {
  const std::string name = key.as<std::string>();
  const auto setting = std::find_if(settings.begin(), settings.end(),
                                    [&name](const Setting& s) { return s.name == name; });
  if (setting == settings.end()) {
    return At(path, key.Mark(), fmt::format("there is no setting '{}'", name));
  }
  if (!value.IsScalar()) {
    return At(path, key.Mark(), fmt::format("{} must be a single value", name));
  }
  const absl::Status status = SetFromText(*setting, value.Scalar());
  return status.ok() ? status : At(path, value.Mark(), std::string(status.message()));
}

absl::StatusOr<ModelOptions> ReadModel(const std::string& path, const YAML::Node& node) {
  if (!node.IsMap()) return At(path, node.Mark(), "a model must have a name and a folder");
  ModelOptions model;
  const std::vector<Setting> settings = Settings(model);
  for (const auto& entry : node) {
    BEAMLINE_RETURN_IF_ERROR(Apply(path, entry.first, entry.second, settings));
  }
  if (!model.folder.empty()) {
    model.folder = (std::filesystem::path(path).parent_path() / model.folder).string();
  }
  return model;
}

absl::Status ReadConfig(const std::string& path, const YAML::Node& root, ServerConfig& config) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) return At(path, root.Mark(), "must be a mapping of settings");
  const std::vector<Setting> settings = Settings(config);
  for (const auto& entry : root) {
    if (entry.first.as<std::string>() != "models") {
      BEAMLINE_RETURN_IF_ERROR(Apply(path, entry.first, entry.second, settings));
      continue;
    }
    if (!entry.second.IsSequence()) return At(path, entry.first.Mark(), "models must be a list");
    config.models.clear();
    for (const YAML::Node& node : entry.second) {
      BEAMLINE_ASSIGN_OR_RETURN(ModelOptions model, ReadModel(path, node));
      config.models.push_back(std::move(model));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status LoadConfigFile(const std::string& path, ServerConfig& config) {
  try {
    return ReadConfig(path, YAML::LoadFile(path), config);
  } catch (const YAML::BadFile&) {
    return absl::NotFoundError(fmt::format("cannot read the configuration file {}", path));
  } catch (const YAML::Exception& error) {
    return At(path, error.mark, error.msg);
  }
}

std::string PrintConfig(ServerConfig config) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  for (const Setting& setting : Settings(config)) {
    out << YAML::Key << setting.name << YAML::Value << ToText(setting);
  }
  out << YAML::Key << "models" << YAML::Value << YAML::BeginSeq;
  for (ModelOptions& model : config.models) {
    out << YAML::BeginMap;
    for (const Setting& setting : Settings(model)) {
      out << YAML::Key << setting.name << YAML::Value << ToText(setting);
    }
    out << YAML::EndMap;
  }
  out << YAML::EndSeq << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace beamline
