// The flags by which programs say how they connect: TLS, and with which certificates.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace CLI {
class App;
}

namespace beamline {

// Paths, and a name.
struct ConnectionFlags {
  bool tls = false;
  std::string ca;
  std::string certificate;
  std::string key;
  std::string server_name;
  std::string token_file;
};

// How to connect, with what the files hold.
struct ConnectionOptions {
  std::optional<TlsOptions> tls;
  std::string token;
};

// --tls, --ca, --cert, --key and --server-name, any of which is TLS, and --token-file. In a group
// of help's, where one is named.
void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, const std::string& group = "");

// INVALID_ARGUMENT or NOT_FOUND that names the flag, the file and the fault.
absl::StatusOr<ConnectionOptions> ReadConnectionOptions(const ConnectionFlags& flags);

}  // namespace beamline
