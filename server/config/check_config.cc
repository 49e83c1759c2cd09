// Checks of a configuration that involve several settings (server/config/server_config.h).
#include <array>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "server/config/server_config.h"

namespace beamline {
namespace {

absl::Status CheckModelName(const std::string& name) {
  if (name == "none") {
    return FieldError({.field = "name",
                       .value = "'none'",
                       .accepted = "another name",
                       .text = "model is named 'none', which metrics call no model"});
  }
  if (name.find(kVersionSeparator) != std::string::npos) {
    const std::string value = fmt::format("'{}'", Shorten(name));
    return FieldError({.field = "name",
                       .value = value,
                       .accepted = fmt::format("a name without {}", kVersionSeparator),
                       .text = fmt::format("model is named {}", value)});
  }
  if (!IsPlainText(name)) {
    const std::string value = fmt::format("'{}'", Shorten(name));
    return FieldError({.field = "name",
                       .value = value,
                       .accepted = "UTF-8 without control characters and others that do not show",
                       .text = fmt::format("model is named {}", value)});
  }
  return absl::OkStatus();
}

// The error for a setting that another setting needs.
absl::Status Missing(const char* field, std::string_view needed_by, const char* accepted) {
  return FieldError({.field = field,
                     .value = "empty",
                     .accepted = accepted,
                     .text = fmt::format("{} is set, and {} is empty", needed_by, field)});
}

absl::Status CheckTls(const ServerConfig& config) {
  const bool has_certificate = !config.tls_certificate_file.empty();
  if (has_certificate && config.tls_key_file.empty()) {
    return Missing("tls_key_file", "tls_certificate_file", "a file");
  }
  for (const auto& [name, value] : {std::pair("tls_key_file", &config.tls_key_file),
                                    std::pair("tls_client_ca_file", &config.tls_client_ca_file)}) {
    if (!has_certificate && !value->empty()) {
      return Missing("tls_certificate_file", name, "a file");
    }
  }
  return absl::OkStatus();
}

// Two listeners at one port: the later error would not name the setting.
absl::Status CheckAddressesDiffer(const ServerConfig& config) {
  const std::array<std::pair<const char*, const std::string*>, 5> addresses = {
      {{"listen", &config.listen},
       {"metrics_listen", &config.metrics_listen},
       {"http_listen", &config.http_listen},
       {"admin_listen", &config.admin_listen},
       {"health_listen", &config.health_listen}}};
  for (size_t i = 1; i < addresses.size(); ++i) {
    const auto& [name, address] = addresses[i];
    if (*address == "off" || *address == kAutoHttp || address->ends_with(":0")) continue;
    for (size_t j = 0; j < i; ++j) {
      if (*addresses[j].second != *address) continue;
      return FieldError(name, fmt::format("'{}', which {} is too", *address, addresses[j].first),
                        "an address of its own");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckLoadName(std::string_view name) {
  constexpr size_t kMostBytes = 128;
  constexpr std::string_view kLetters =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
  const std::string allowed = std::string(kLetters) + "._-";
  if (!name.empty() && name.size() <= kMostBytes && name != "none" &&
      kLetters.find(name[0]) != std::string_view::npos &&
      name.find_first_not_of(allowed) == std::string_view::npos) {
    return absl::OkStatus();
  }
  return FieldError("name", fmt::format("'{}'", Shorten(name)),
                    "1 to 128 letters, digits, dots, underscores and hyphens, a letter or a digit "
                    "first; not 'none'");
}

absl::Status CheckConfig(const ServerConfig& config) {
  BEAMLINE_RETURN_IF_ERROR(ParseHostPort("listen", config.listen).status());
  if (config.metrics_listen != "off") {
    BEAMLINE_RETURN_IF_ERROR(ParseHostPort("metrics_listen", config.metrics_listen).status());
  }
  if (config.http_listen != "off" && config.http_listen != kAutoHttp) {
    BEAMLINE_RETURN_IF_ERROR(ParseHostPort("http_listen", config.http_listen).status());
  }
  if (config.admin_listen != "off") {
    BEAMLINE_RETURN_IF_ERROR(ParseHostPort("admin_listen", config.admin_listen).status());
    if (config.model_root.empty()) {
      return Missing("model_root", "admin_listen", "a folder");
    }
  }
  if (config.health_listen != "off") {
    BEAMLINE_RETURN_IF_ERROR(ParseHostPort("health_listen", config.health_listen).status());
  }
  if (config.otlp_endpoint != "off") {
    BEAMLINE_ASSIGN_OR_RETURN(const HostPort collector,
                              ParseHostPort("otlp_endpoint", config.otlp_endpoint));
    if (collector.port == 0) {
      return FieldError("otlp_endpoint", fmt::format("'{}'", config.otlp_endpoint),
                        "a port from 1 to 65535");
    }
  }
  BEAMLINE_RETURN_IF_ERROR(CheckAddressesDiffer(config));
  BEAMLINE_RETURN_IF_ERROR(CheckTls(config));
  std::set<std::pair<std::string, int32_t>> names;
  for (const ModelOptions& model : config.models) {
    if (model.name.empty() || model.folder.empty()) {
      const char* const field = model.name.empty() ? "name" : "folder";
      return FieldError(
          {.field = field, .text = fmt::format("model '{}' has no {}", model.name, field)});
    }
    BEAMLINE_RETURN_IF_ERROR(CheckModelName(model.name));
    if (!names.insert({model.name, model.version}).second) {
      return FieldError(
          {.field = "name", .text = fmt::format("model '{}' is given twice", model.name)});
    }
  }
  return absl::OkStatus();
}

}  // namespace beamline
