#include "client/connection_flags.h"

#include <algorithm>
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
constexpr char kTokenVariable[] = "BEAMLINE_TOKEN_FILE";

// Reads a PEM file that must contain a block of this kind.
absl::StatusOr<std::string> ReadPem(const char* flag, const std::string& path,
                                    std::string_view kind) {
  if (path.empty()) return std::string();
  BEAMLINE_ASSIGN_OR_RETURN(std::string text, ReadFile(flag, path, kMostFileBytes));
  if (text.find(fmt::format("{}-----", kind)) != std::string::npos) return text;
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}', which holds no {}; accepted: a file of PEM", flag, path, kind));
}

// Reads a token: a single word, as metadata requires.
absl::StatusOr<std::string> ReadToken(const std::string& path) {
  constexpr size_t kMostTokenBytes = 4096;
  if (path.empty()) return std::string();
  const std::string_view name = GivenBy("--token-file", kTokenVariable, path);
  BEAMLINE_ASSIGN_OR_RETURN(std::string token, ReadFile(name, path, kMostTokenBytes));
  while (token.ends_with('\n') || token.ends_with('\r')) token.pop_back();
  const bool is_word = !token.empty() && std::ranges::all_of(token, [](unsigned char c) {
    return c > ' ' && c < 127;
  });
  if (is_word) return token;
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}', which holds no token; accepted: one word of ASCII", name, path));
}

}  // namespace

void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, const std::string& group) {
  CLI::Option* const tls = app.add_flag("--tls", flags.tls, "connects with TLS");
  const std::array<CLI::Option*, 5> others = {
      AddPath(app, "--ca", flags.ca,
              "with TLS, PEM file of the authorities that are trusted; without it the system's"),
      AddPath(app, "--cert", flags.certificate,
              "with TLS, PEM file of this client's certificate, where the server asks for one"),
      AddPath(app, "--key", flags.key, "PEM file of the certificate's key"),
      app.add_option("--server-name", flags.server_name,
                     "with TLS, what the server's certificate names it, where that is not the "
                     "address's host")
          ->type_name("NAME"),
      AddPath(app, "--token-file", flags.token_file,
              "file of the token that is sent with each call, where the server asks for one")
          ->envname(kTokenVariable)};
  others[1]->needs(others[2]);
  others[2]->needs(others[1]);
  if (group.empty()) return;
  tls->group(group);
  for (CLI::Option* const option : others) option->group(group);
}

absl::StatusOr<ConnectionOptions> ReadConnectionOptions(const ConnectionFlags& flags) {
  ConnectionOptions options;
  BEAMLINE_ASSIGN_OR_RETURN(options.token, ReadToken(flags.token_file));
  if (!flags.tls && flags.ca.empty() && flags.certificate.empty() && flags.server_name.empty()) {
    return options;
  }
  TlsOptions& tls = options.tls.emplace();
  BEAMLINE_ASSIGN_OR_RETURN(tls.root_certificates, ReadPem("--ca", flags.ca, "CERTIFICATE"));
  BEAMLINE_ASSIGN_OR_RETURN(tls.certificate_chain,
                            ReadPem("--cert", flags.certificate, "CERTIFICATE"));
  BEAMLINE_ASSIGN_OR_RETURN(tls.private_key, ReadPem("--key", flags.key, "PRIVATE KEY"));
  tls.server_name = flags.server_name;
  return options;
}

}  // namespace beamline
