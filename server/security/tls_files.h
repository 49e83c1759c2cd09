// The certificates and the key of a server that speaks TLS, read of files and checked: gRPC itself
// would say no more of a fault than that it does not start.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace beamline {

// Of each of the files below; a larger one is refused.
inline constexpr size_t kMostTlsFileBytes = size_t{1} << 20;

// Paths; without a certificate no TLS is spoken.
struct TlsFiles {
  std::string certificate;  // PEM: the server's, then those of the authorities between
  std::string key;          // PEM, without a passphrase
  std::string client_ca;    // PEM: whose certificates clients have; empty: they need none
  // Of a client without a certificate: whether it is refused.
  bool require_client_certificate = true;
};

// What the files hold, as PEM.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string client_ca;
  std::string subject;  // of the server's certificate: "CN=beamline"
  std::chrono::system_clock::time_point expires;
  // The first end among all certificates of a file; without a client_ca the clock's beginning.
  std::chrono::system_clock::time_point chain_expires;
  std::chrono::system_clock::time_point client_ca_expires;

  bool operator==(const TlsMaterial&) const = default;
};

// INVALID_ARGUMENT or NOT_FOUND, one line that names the setting, the file and the fault: a file
// that is not there or no PEM, a key of another certificate or with a passphrase, a certificate
// that has expired or is not valid yet, or what OpenSSL refuses, as a short key.
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files);

// "2026-11-23 08:00:00 UTC".
std::string TimeText(std::chrono::system_clock::time_point time);

}  // namespace beamline
