#include "server/config/flags.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "base/build_info.h"
#include "base/command_documents.h"
#include "base/command_line.h"
#include "base/command_tree.h"
#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/config/config_file.h"
#include "server/config/demo_models.h"
#include "server/config/model_folder.h"

namespace beamline {
namespace {

std::string FlagName(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

// A hint for an unknown flag: the setting of the server or of a model that it probably means.
std::string FlagHint(const std::string& option) {
  std::string name = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::replace(name.begin(), name.end(), '-', '_');
  ServerConfig config;
  ModelOptions model;
  if (const auto own = OwnName(name, Settings(config)); !own.empty()) {
    return fmt::format("; it is called {} here", FlagName(std::string(own)));
  }
  const auto own = OwnName(name, Settings(model));
  return own.empty() ? ""
                     : fmt::format("; it is a model's setting: --model NAME=FOLDER,{}=...", own);
}

// The value of --health without an address. It is not a host:port, and differs from an empty
// variable's value.
constexpr char kOwnAddress[] = "listen";

// The flags' values as text.
struct Flags {
  std::string config_file;
  std::vector<std::string> models;
  std::map<std::string, std::string> settings;  // by setting name; only given flags
  const CLI::Option* health = nullptr;          // --health, with or without an address
};

// The settings that --model accepts after a model's name and folder, with their accepted values.
std::vector<std::string> ModelFlagSettings() {
  ModelOptions model;
  std::vector<std::string> texts;
  for (const Setting& setting : Settings(model)) {
    if (setting.name == "name" || setting.name == "folder") continue;
    const std::string accepted = Accepted(setting);
    texts.push_back(fmt::format("{} ({})", setting.name, accepted.empty() ? "a text" : accepted));
  }
  return texts;
}

// " (Env:BEAMLINE_CONFIG)", as CLI11 writes it.
std::string EnvironmentHelp(std::string_view variable, std::string_view more = "") {
  return fmt::format(" (Env:{}{})", variable, more);
}

// "largest request message; 1024 to 2147483647 [4194304] (Env:BEAMLINE_MAX_RECEIVE_BYTES)".
std::string Help(const Setting& setting) {
  const std::string accepted = Accepted(setting);
  return fmt::format("{}{}{} [{}]{}", setting.help, accepted.empty() ? "" : "; ", accepted,
                     ToText(setting), EnvironmentHelp(VariableName(setting.name)));
}

// The help text's name for the value.
std::string ValueName(const Setting& setting) {
  const bool is_whole = std::holds_alternative<int32_t*>(setting.value) ||
                        std::holds_alternative<int64_t*>(setting.value);
  if (is_whole) return "N";
  return std::holds_alternative<double*>(setting.value) ? "X" : "VALUE";
}

constexpr char kExamples[] =
    "Examples:\n"
    "  beamline-server\n"
    "  beamline-server --model mt=/srv/models/opus-mt-en-de --listen 0.0.0.0:50051\n"
    "  beamline-server --config /etc/beamline/server.yaml --log-level debug\n"
    "  beamline-server --health 127.0.0.1:50051\n";

std::vector<ManualSection> Manual() {
  return {
      {"Exit status",
       {"0: A clean end; with --health, the server asked is SERVING.",
        "1: It cannot serve, or a device has failed; with --health, the server is not SERVING.",
        "2: A wrong command line or configuration.",
        "128 and the number of a signal: A second signal ended it at once."}},
      {"Signals",
       {"SIGTERM, SIGINT: Finishes the requests that run, at most drain_timeout_ms, and ends."}},
      {"See also", {"beamline(1), beamline-loadtest(1)"}}};
}

void AddOptions(CLI::App& app, CommandLine& line, Flags& flags) {
  AddPath(
      app, "--config", flags.config_file,
      "YAML file of settings; flags go before variables of the environment, these before the file" +
          EnvironmentHelp(kConfigVariable));
  AddRepeatable(
      app, "--model", flags.models,
      fmt::format(
          "a model to serve, may be repeated: [name=]folder[,setting=value...], or a Hub's name in "
          "place of the folder, with the settings {}. Without any: the demo models{}",
          fmt::join(ModelFlagSettings(), ", "),
          EnvironmentHelp(kModelVariable, ", ';' between several")))
      ->type_name("MODEL");
  for (const Setting& setting : Settings(line.config)) {
    const std::string name = setting.name;
    CLI::Option* option = app.add_option_function<std::string>(
        FlagName(name), [&flags, name](const std::string& text) { flags.settings[name] = text; },
        Help(setting));
    SetChoices(*option, ValueName(setting), setting.choices);
  }
  flags.health =
      app.add_option(
             "--health", line.health_address,
             fmt::format("asks the server at ADDRESS for its health, without one the server "
                         "at {}, where that is off at {}, and ends: with status 0 when it is "
                         "SERVING, else with 1",
                         FlagName("health_listen"), FlagName("listen")))
          ->type_name("[ADDRESS]")
          ->expected(0, 1)
          ->default_str(kOwnAddress);
  app.add_flag("--print-config", line.print_config,
               "prints the settings as a configuration file and ends");
  AddCompletionFlag(app);
  AddManPageFlag(app, fmt::format("beamline-server {}", ThisBuild().version), Manual());
  app.set_version_flag("--version", VersionLine("beamline-server"));
  app.footer(kExamples);
}

// The value of a variable; empty if it is not set.
std::string Value(const Environment& environment, const std::string& variable) {
  const auto it = environment.find(variable);
  return it == environment.end() ? "" : it->second;
}

// Errors of a file start with the flag or variable that named it.
absl::Status ApplyFile(const Flags& flags, const Environment& environment, ServerConfig& config) {
  const bool is_flag = !flags.config_file.empty();
  const char* const named_by = is_flag ? "--config" : kConfigVariable;
  const std::string path = is_flag ? flags.config_file : Value(environment, kConfigVariable);
  if (path.empty()) return absl::OkStatus();
  const absl::Status status = LoadConfigFile(path, config, named_by);
  const std::string message(status.message());
  if (status.ok() || message.starts_with(named_by)) return status;
  return absl::Status(status.code(), fmt::format("{} {}", named_by, message));
}

absl::Status ApplyEnvironment(const Environment& environment, ServerConfig& config) {
  for (Setting setting : Settings(config)) {
    setting.name = VariableName(setting.name);  // for errors
    const std::string value = Value(environment, setting.name);
    if (!value.empty()) BEAMLINE_RETURN_IF_ERROR(SetFromText(setting, value));
  }
  const std::string models = Value(environment, kModelVariable);
  if (models.empty()) return absl::OkStatus();
  config.models.clear();
  for (size_t begin = 0; begin <= models.size();) {
    const size_t end = std::min(models.find(';', begin), models.size());
    BEAMLINE_ASSIGN_OR_RETURN(ModelOptions model,
                              ParseModel(kModelVariable, models.substr(begin, end - begin)));
    config.models.push_back(std::move(model));
    begin = end + 1;
  }
  return absl::OkStatus();
}

absl::Status ApplyFlags(const Flags& flags, ServerConfig& config) {
  for (Setting setting : Settings(config)) {
    const auto it = flags.settings.find(setting.name);
    if (it == flags.settings.end()) continue;
    setting.name = FlagName(setting.name);  // for errors
    BEAMLINE_RETURN_IF_ERROR(SetFromText(setting, it->second));
  }
  if (!flags.models.empty()) config.models.clear();
  for (const std::string& text : flags.models) {
    BEAMLINE_ASSIGN_OR_RETURN(ModelOptions model, ParseModel("--model", text));
    config.models.push_back(std::move(model));
  }
  return absl::OkStatus();
}

// The address to reach a server that listens at `address`: loopback if it listens on all addresses.
HostPort Reached(HostPort address) {
  if (address.host == "0.0.0.0" || address.host == "[::]") address.host = "127.0.0.1";
  return address;
}

// The address to ask, and whether with TLS. Without an address in --health it is the
// configuration's own: health_listen, else listen.
absl::Status SetHealthAddress(CommandLine& line) {
  const ServerConfig& config = line.config;
  const bool is_given = line.health_address != kOwnAddress;
  const bool has_own = config.health_listen != "off";
  const std::string& chosen = is_given  ? line.health_address
                              : has_own ? config.health_listen
                                        : config.listen;
  const char* const name = is_given ? "--health" : has_own ? "health_listen" : "listen";
  BEAMLINE_ASSIGN_OR_RETURN(HostPort address, ParseHostPort(name, chosen));
  if (address.port == 0) {
    return FieldError("--health", fmt::format("'{}'", chosen),
                      "an address with the port that the server has");
  }
  address = Reached(address);
  bool is_health_listen = has_own && !is_given;
  if (has_own && is_given) {
    BEAMLINE_ASSIGN_OR_RETURN(const HostPort own,
                              ParseHostPort("health_listen", config.health_listen));
    is_health_listen = own.port == address.port;
  }
  line.health_address = fmt::format("{}:{}", address.host, address.port);
  line.health_has_tls = !config.tls_certificate_file.empty() && !is_health_listen;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelOptions> ParseModel(std::string_view name, std::string_view text) {
  const std::string prefix = fmt::format("{} '{}': ", name, text);
  const auto bad = [name, &prefix](std::string_view problem) {
    return FieldError({.field = std::string(name), .text = fmt::format("{}{}", prefix, problem)});
  };
  ModelOptions model;
  const std::vector<Setting> settings = Settings(model);
  std::set<std::string_view> given = {"name", "folder"};
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = std::min(text.find(',', begin), text.size());
    // The further words of a list have no "name=" before them.
    for (const auto& setting : settings) {
      if (!setting.is_list || !text.substr(begin).starts_with(setting.name + "=")) continue;
      while (end < text.size()) {
        const size_t next = std::min(text.find(',', end + 1), text.size());
        if (text.substr(end, next - end).find('=') != std::string_view::npos) break;
        end = next;
      }
    }
    const std::string_view part = text.substr(begin, end - begin);
    const size_t equals = part.find('=');
    const bool is_folder = begin == 0 && !part.empty() && equals == part.npos;
    if (!is_folder && (equals == part.npos || equals == 0)) {
      return bad("accepted: [name=]folder[,setting=value...]");
    }
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = is_folder ? "" : part.substr(equals + 1);
    if (is_folder) {
      model.name = NameOfFolder(part);
      model.folder = part;
    } else if (begin == 0) {
      model.name = key;
      model.folder = value;
    } else {
      const auto setting = std::find_if(settings.begin(), settings.end(),
                                        [key](const Setting& s) { return s.name == key; });
      if (setting == settings.end()) {
        return bad(fmt::format("there is no setting '{}'{}", key, SettingHint(key, settings)));
      }
      if (!given.insert(key).second) return bad(fmt::format("{} is given twice", key));
      const absl::Status status = SetFromText(*setting, value);
      if (!status.ok()) return InField(setting->name, prefix, status);
    }
    begin = end + 1;
  }
  if (model.folder.empty()) return bad("the folder is empty");
  return model;
}

namespace {

absl::Status FindFolders(ServerConfig& config) {
  const std::string cache = HubCacheFolder([](const char* name) { return std::getenv(name); });
  for (ModelOptions& model : config.models) {
    const absl::StatusOr<std::string> folder = FindModelFolder(model.folder, cache);
    if (!folder.ok()) {
      return absl::NotFoundError(
          fmt::format("model '{}': {}", model.name, std::string(folder.status().message())));
    }
    model.folder = *folder;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(int argc, const char* const* argv,
                                             const Environment& environment) {
  CommandLine line;
  Flags flags;
  CLI::App app("Serves Hugging Face checkpoints over gRPC.", "beamline-server");
  AddOptions(app, line, flags);
  BEAMLINE_ASSIGN_OR_RETURN(line.text, ParseArguments(app, argc, argv, FlagHint));
  if (!line.text.empty()) return line;
  ServerConfig& config = line.config;
  BEAMLINE_RETURN_IF_ERROR(ApplyFile(flags, environment, config));
  BEAMLINE_RETURN_IF_ERROR(ApplyEnvironment(environment, config));
  BEAMLINE_RETURN_IF_ERROR(ApplyFlags(flags, config));
  if (flags.health->count() > 0) {
    // The server runs elsewhere or already, so its models need not be here.
    BEAMLINE_RETURN_IF_ERROR(SetHealthAddress(line));
    return line;
  }
  if (config.models.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(config.models, FindDemoModels());
  }
  BEAMLINE_RETURN_IF_ERROR(FindFolders(config));
  BEAMLINE_RETURN_IF_ERROR(CheckConfig(config));
  return line;
}

}  // namespace beamline
