#include "server/config/environment.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/config/algorithm_file_path.h"
#include "server/config/server_config.h"

namespace beamline {
namespace {

constexpr std::string_view kPrefix = "BEAMLINE_";

// Variables of other parts: folder of the demo models, autotuning cache, CUDA module, NCCL library,
// choice of all-reduce; those of the client.
constexpr std::array<std::string_view, 8> kOthers = {
    "BEAMLINE_MODELS",    kAlgorithmFileVariable, "BEAMLINE_CUDA_MODULE", "BEAMLINE_NCCL_LIBRARY",
    "BEAMLINE_PEER_SUMS", "BEAMLINE_ADDRESS",     "BEAMLINE_METRICS",     "BEAMLINE_TOKEN_FILE"};

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// For each Service in its namespace Kubernetes sets in every container: NAME_SERVICE_HOST,
// NAME_SERVICE_PORT, NAME_SERVICE_PORT_PORTNAME, NAME_PORT (tcp://10.0.0.1:80) and
// NAME_PORT_80_TCP, the last also with the suffixes _PROTO, _PORT and _ADDR.
bool IsServiceLink(std::string_view name, std::string_view value) {
  if (name.ends_with("_SERVICE_HOST") || name.find("_SERVICE_PORT") != name.npos) return true;
  if (name.ends_with("_PORT") && value.find("://") != value.npos) return true;
  constexpr std::string_view kPort = "_PORT_";
  for (size_t at = name.find(kPort); at != name.npos; at = name.find(kPort, at + 1)) {
    std::string_view rest = name.substr(at + kPort.size());
    const auto end = std::find_if_not(rest.begin(), rest.end(), IsDigit);
    if (end == rest.begin()) continue;
    rest.remove_prefix(static_cast<size_t>(end - rest.begin()));
    for (const std::string_view protocol : {"_TCP", "_UDP", "_SCTP"}) {
      if (!rest.starts_with(protocol)) continue;
      const std::string_view behind = rest.substr(protocol.size());
      if (behind.empty() || behind.starts_with('_')) return true;
    }
  }
  return false;
}

}  // namespace

absl::Status CheckPollStrategy(const char* value) {
  if (value == nullptr || *value == '\0') return absl::OkStatus();
  constexpr std::array<std::string_view, 3> kKnown = {"all", "epoll1", "poll"};
  std::string_view rest = value;
  while (true) {
    const size_t comma = rest.find(',');
    if (std::find(kKnown.begin(), kKnown.end(), rest.substr(0, comma)) == kKnown.end()) break;
    if (comma == rest.npos) return absl::OkStatus();
    rest.remove_prefix(comma + 1);
  }
  return absl::InvalidArgumentError(
      fmt::format("the environment variable {} is '{}'; accepted: {}, or several of them with "
                  "commas between",
                  kPollStrategyVariable, Shorten(value), fmt::join(kKnown, ", ")));
}

Environment ReadEnvironment(const char* const* variables) {
  Environment environment;
  for (; variables != nullptr && *variables != nullptr; ++variables) {
    const std::string_view text = *variables;
    const size_t equals = text.find('=');
    if (!text.starts_with(kPrefix) || equals == text.npos || equals + 1 == text.size()) continue;
    environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::string VariableName(std::string_view setting) {
  std::string name(kPrefix);
  for (const char c : setting) name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

std::vector<std::string> UnknownVariables(const Environment& environment) {
  ServerConfig config;
  std::vector<std::string> known = {kConfigVariable, kModelVariable};
  for (const Setting& setting : Settings(config)) known.push_back(VariableName(setting.name));
  std::vector<std::string> lines;
  for (const auto& [name, value] : environment) {
    const bool is_known = std::find(known.begin(), known.end(), name) != known.end() ||
                          std::find(kOthers.begin(), kOthers.end(), name) != kOthers.end();
    if (is_known || IsServiceLink(name, value)) continue;
    lines.push_back(fmt::format("the environment variable {} sets nothing{}", Shorten(name, 100),
                                DidYouMean(name, known)));
  }
  return lines;
}

}  // namespace beamline
