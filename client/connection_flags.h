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
};

// --tls, --ca, --cert, --key and --server-name; any of them is TLS. In a group of help's, where one
// is named.
void AddConnectionFlags(CLI::App& app, ConnectionFlags& flags, const std::string& group = "");

// Nothing for plain text. INVALID_ARGUMENT or NOT_FOUND that names the flag, the file and the
// fault.
absl::StatusOr<std::optional<TlsOptions>> ReadTlsOptions(const ConnectionFlags& flags);

}  // namespace beamline
