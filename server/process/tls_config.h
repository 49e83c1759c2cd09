// Converts the TLS settings to TlsFiles.
#pragma once

#include <optional>

#include "server/config/server_config.h"
#include "server/security/tls_files.h"

namespace beamline {

// nullopt for plain text.
inline std::optional<TlsFiles> TlsFilesOf(const ServerConfig& config) {
  if (config.tls_certificate_file.empty()) return std::nullopt;
  return TlsFiles{.certificate = config.tls_certificate_file,
                  .key = config.tls_key_file,
                  .client_ca = config.tls_client_ca_file,
                  .require_client_certificate = config.tls_require_client_certificate};
}

}  // namespace beamline
