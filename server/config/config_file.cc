#include "server/config/config_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "base/field_error.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "base/yaml.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/config/algorithm_file_path.h"
#include "server/config/model_folder.h"
#include "yaml-cpp/yaml.h"

namespace beamline {
namespace {

constexpr size_t kMaxFileBytes = size_t{1} << 20;

absl::Status At(const std::string& path, const YAML::Mark& mark, std::string_view problem) {
  return absl::InvalidArgumentError(fmt::format("{}:{}: {}", path, mark.line + 1, problem));
}

// Reads an entry's name, and checks that it is the first of this name in the mapping.
absl::StatusOr<std::string> ReadKey(const std::string& path, const YAML::Node& key,
                                    std::set<std::string>& before) {
  if (!key.IsScalar()) return At(path, key.Mark(), "a setting's name must be a single word");
  std::string name = key.Scalar();
  if (!before.insert(name).second) {
    return At(path, key.Mark(), fmt::format("{} is given twice", name));
  }
  return name;
}

// Sets the setting of this name to the entry's value.
absl::Status Apply(const std::string& path, const YAML::Node& key, const std::string& name,
                   const YAML::Node& value, const std::vector<Setting>& settings) {
  const auto setting = std::find_if(settings.begin(), settings.end(),
                                    [&name](const Setting& s) { return s.name == name; });
  if (setting == settings.end()) {
    return At(path, key.Mark(),
              fmt::format("there is no setting '{}'{}", name, SettingHint(name, settings)));
  }
  if (setting->is_list && value.IsSequence()) {
    std::vector<std::string> words;
    for (const YAML::Node& word : value) {
      if (!word.IsScalar()) return At(path, word.Mark(), fmt::format("{} must hold words", name));
      words.push_back(word.Scalar());
    }
    return InField(name, fmt::format("{}:{}: ", path, value.Mark().line + 1),
                   SetFromText(*setting, fmt::format("{}", fmt::join(words, ", "))));
  }
  if (!value.IsScalar()) {
    const std::string accepted = Accepted(*setting);
    return At(path, key.Mark(),
              fmt::format("{} {}; accepted: {}", name,
                          value.IsNull()       ? "has no value"
                          : value.IsSequence() ? "is a list"
                                               : "is a mapping",
                          accepted.empty() ? "a single value" : accepted));
  }
  return InField(name, fmt::format("{}:{}: ", path, value.Mark().line + 1),
                 SetFromText(*setting, value.Scalar()));
}

// A path in the file at `path`, which it is relative to.
std::string BesideFile(const std::string& path, const std::string& written) {
  return (std::filesystem::path(path).parent_path() / written).string();
}

// The same for a model's folder. A Hub name is kept if neither this folder nor its parent exists.
std::string ModelBesideFile(const std::string& path, const std::string& written) {
  std::string folder = BesideFile(path, written);
  std::error_code error;
  const bool is_there =
      std::filesystem::is_directory(std::filesystem::path(folder).parent_path(), error);
  return IsHubModel(written) && !is_there ? written : folder;
}

constexpr std::array<const char*, 7> kPathSettings = {
    "identity_file",        "algorithm_file", "rank_secret_file",  "model_root",
    "tls_certificate_file", "tls_key_file",   "tls_client_ca_file"};

// The setting's value if it is a path, else null.
std::string* PathSetting(std::string_view name, ServerConfig& config) {
  if (std::ranges::find(kPathSettings, name) == kPathSettings.end()) return nullptr;
  for (const Setting& setting : Settings(config)) {
    if (setting.name != name) continue;
    std::string* const value = std::get<std::string*>(setting.value);
    const bool is_path = name == "algorithm_file" ? IsAlgorithmPath(*value) : !value->empty();
    return is_path ? value : nullptr;
  }
  return nullptr;
}

absl::StatusOr<ModelOptions> ReadModel(const std::string& path, const YAML::Node& node) {
  if (!node.IsMap()) return At(path, node.Mark(), "a model must have a name and a folder");
  ModelOptions model;
  const std::vector<Setting> settings = Settings(model);
  std::set<std::string> keys;
  for (const auto& entry : node) {
    BEAMLINE_ASSIGN_OR_RETURN(const std::string key, ReadKey(path, entry.first, keys));
    BEAMLINE_RETURN_IF_ERROR(Apply(path, entry.first, key, entry.second, settings));
  }
  if (!model.folder.empty()) {
    if (model.name.empty()) model.name = NameOfFolder(model.folder);
    model.folder = ModelBesideFile(path, model.folder);
  }
  return model;
}

absl::Status ReadConfig(const std::string& path, const YAML::Node& root, ServerConfig& config) {
  if (root.IsNull()) return absl::OkStatus();
  if (!root.IsMap()) return At(path, root.Mark(), "must be a mapping of settings");
  const std::vector<Setting> settings = Settings(config);
  std::set<std::string> keys;
  for (const auto& entry : root) {
    BEAMLINE_ASSIGN_OR_RETURN(const std::string key, ReadKey(path, entry.first, keys));
    if (key == "model")
      return At(path, entry.first.Mark(), "there is no setting 'model'; models is a list of them");
    if (key != "models") {
      BEAMLINE_RETURN_IF_ERROR(Apply(path, entry.first, key, entry.second, settings));
      if (std::string* const named = PathSetting(key, config)) *named = BesideFile(path, *named);
      continue;
    }
    if (!entry.second.IsSequence()) return At(path, entry.first.Mark(), "models must be a list");
    if (entry.second.size() == 0) {
      return At(path, entry.first.Mark(),
                "models is empty; accepted: at least one, or no such key for the demo models");
    }
    config.models.clear();
    for (const YAML::Node& node : entry.second) {
      BEAMLINE_ASSIGN_OR_RETURN(ModelOptions model, ReadModel(path, node));
      config.models.push_back(std::move(model));
    }
  }
  return absl::OkStatus();
}

// The absolute path, if the working directory is known.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

}  // namespace

absl::Status LoadConfigFile(const std::string& path, ServerConfig& config,
                            std::string_view named_by) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadFile(named_by, path, kMaxFileBytes));
  BEAMLINE_ASSIGN_OR_RETURN(const YAML::Node root, LoadYaml(path, text));
  try {
    return ReadConfig(path, root, config);
  } catch (const YAML::Exception& error) {
    return At(path, error.mark, error.msg);
  }
}

std::string PrintConfig(ServerConfig config) {
  for (const char* const name : kPathSettings) {
    if (std::string* const path = PathSetting(name, config)) *path = Absolute(*path);
  }
  for (ModelOptions& model : config.models) {
    model.folder = Absolute(model.folder);
    FillFrom(config, model);
  }
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
