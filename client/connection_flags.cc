#include "client/connection_flags.h"

#include <array>
#include <cstddef>
#include <string_view>

#include "CLI/CLI.hpp"
#include "base/command_line.h"
#include "base/file.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 20;

// A file of PEM texts, one of which is of that kind.
absl::StatusOr<std::string> ReadPem(const char* flag, const std::string& path,
                                    std::string_view kind) {
  if (path.empty()) return std::string();
  BEAMLINE_ASSIGN_OR_RETURN(std::string text, ReadFile(flag, path, kMostFileBytes));
  if (text.find(fmt::format("{}-----", kind)) != std::string::npos) return text;
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}', which holds no {}; accepted: a file of PEM", flag, path, kind));
}

}  // namespace

void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, const std::string& group) {
  CLI::Option* const tls = app.add_flag("--tls", flags.tls, "connects with TLS");
  const std::array<CLI::Option*, 4> others = {
      AddPath(app, "--ca", flags.ca,
              "with TLS, PEM file of the authorities that are trusted; without it the system's"),
      AddPath(app, "--cert", flags.certificate,
              "with TLS, PEM file of this client's certificate, where the server asks for one"),
      AddPath(app, "--key", flags.key, "PEM file of the certificate's key"),
      app.add_option("--server-name", flags.server_name,
                     "with TLS, what the server's certificate names it, where that is not the "
                     "address's host")
          ->type_name("NAME")};
  others[1]->needs(others[2]);
  others[2]->needs(others[1]);
  if (group.empty()) return;
  tls->group(group);
  for (CLI::Option* const option : others) option->group(group);
}

absl::StatusOr<std::optional<TlsOptions>> ReadTlsOptions(const ConnectionFlags& flags) {
  if (!flags.tls && flags.ca.empty() && flags.certificate.empty() && flags.server_name.empty()) {
    return std::nullopt;
  }
  TlsOptions options;
  BEAMLINE_ASSIGN_OR_RETURN(options.root_certificates, ReadPem("--ca", flags.ca, "CERTIFICATE"));
  BEAMLINE_ASSIGN_OR_RETURN(options.certificate_chain,
                            ReadPem("--cert", flags.certificate, "CERTIFICATE"));
  BEAMLINE_ASSIGN_OR_RETURN(options.private_key, ReadPem("--key", flags.key, "PRIVATE KEY"));
  options.server_name = flags.server_name;
  return options;
}

}  // namespace beamline
