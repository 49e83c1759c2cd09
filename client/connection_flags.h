// Command-line flags of a client's connection: TLS, certificates and token.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace CLI {
class App;
}

namespace beamline {

// Values of the flags: file paths, and the server's name.
struct ConnectionFlags {
  bool tls = false;
  std::string ca;
  std::string certificate;
  std::string key;
  std::string server_name;
  std::string token_file;
};

// Connection options, with the contents of the files.
struct ConnectionOptions {
  std::optional<TlsOptions> tls;
  std::string token;
};

// Adds --tls, --ca, --cert, --key and --server-name, any of which enables TLS, and --token-file.
// `group`: their heading in the help; empty: the default one.
void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, const std::string& group = "");

// INVALID_ARGUMENT or NOT_FOUND, naming the flag, the file and the fault.
absl::StatusOr<ConnectionOptions> ReadConnectionOptions(const ConnectionFlags& flags);

}  // namespace beamline
