#include "server/config/flags.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "kernels/status.h"
#include "server/config/config_file.h"
#include "server/config/demo_models.h"

namespace beamline {
namespace {

std::string FlagName(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

// What the flags said, as text.
struct Flags {
  std::string config_file;
  std::vector<std::string> models;
  std::map<std::string, std::string> settings;  // by setting name, only those given
};

void AddOptions(CLI::App& app, CommandLine& line, Flags& flags) {
  app.add_option("--config", flags.config_file, "YAML file of settings; flags go before it")
      ->type_name("FILE");
  app.add_option(
         "--model", flags.models,
         "a model to serve, may be repeated: name=folder[,setting=value...] with the "
         "settings dtype, max_batch_tokens, max_sequences, cache_bytes, "
         "prefix_cache, speculative_tokens, max_queued_requests, warm_up. Without any: the demo "
         "models")
      ->type_name("MODEL")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  for (const Setting& setting : Settings(line.config)) {
    const std::string name = setting.name;
    app.add_option_function<std::string>(
           FlagName(name), [&flags, name](const std::string& text) { flags.settings[name] = text; },
           fmt::format("{} [{}]", setting.help, ToText(setting)))
        ->type_name("");
  }
  app.add_flag("--print-config", line.print_config,
               "prints the settings as a configuration file and ends");
  app.set_version_flag("--version", "beamline-server " BEAMLINE_VERSION);
}

absl::Status Apply(const Flags& flags, ServerConfig& config) {
  if (!flags.config_file.empty()) {
    BEAMLINE_RETURN_IF_ERROR(LoadConfigFile(flags.config_file, config));
  }
  for (const Setting& setting : Settings(config)) {
    const auto it = flags.settings.find(setting.name);
    if (it != flags.settings.end()) BEAMLINE_RETURN_IF_ERROR(SetFromText(setting, it->second));
  }
  if (!flags.models.empty()) config.models.clear();
  for (const std::string& text : flags.models) {
    BEAMLINE_ASSIGN_OR_RETURN(ModelOptions model, ParseModelFlag(text));
    config.models.push_back(std::move(model));
  }
  if (config.models.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(config.models, FindDemoModels());
  }
  return CheckConfig(config);
}

}  // namespace

absl::StatusOr<ModelOptions> ParseModelFlag(std::string_view text) {
  const auto bad = [text](std::string_view problem) {
    return absl::InvalidArgumentError(fmt::format("--model '{}': {}", text, problem));
  };
  ModelOptions model;
  const std::vector<Setting> settings = Settings(model);
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return bad("accepted: name=folder[,setting=value...]");
    }
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = part.substr(equals + 1);
    if (begin == 0) {
      model.name = key;
      model.folder = value;
    } else {
      const auto setting = std::find_if(settings.begin(), settings.end(),
                                        [key](const Setting& s) { return s.name == key; });
      if (setting == settings.end()) return bad(fmt::format("there is no setting '{}'", key));
      const absl::Status status = SetFromText(*setting, value);
      if (!status.ok()) return bad(std::string(status.message()));
    }
    begin = end + 1;
  }
  if (model.folder.empty()) return bad("the folder is empty");
  return model;
}

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv) {
  CommandLine line;
  Flags flags;
  CLI::App app("Serves Hugging Face checkpoints over gRPC.", "beamline-server");
  AddOptions(app, line, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    line.text = app.help();
    return line;
  } catch (const CLI::CallForVersion& version) {
    line.text = std::string(version.what()) + "\n";
    return line;
  } catch (const CLI::ParseError& error) {
    return absl::InvalidArgumentError(error.what());
  }
  BEAMLINE_RETURN_IF_ERROR(Apply(flags, line.config));
  return line;
}

}  // namespace beamline
