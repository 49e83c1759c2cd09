// Reads and checks the certificates and key of a server with TLS. gRPC itself would only report
// that it does not start.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace beamline {

// Size limit of each of the files below.
inline constexpr size_t kMostTlsFileBytes = size_t{1} << 20;

// File paths. No certificate: no TLS.
struct TlsFiles {
  std::string certificate;  // PEM: the server's, then intermediate ones
  std::string key;          // PEM, without a passphrase
  std::string client_ca;    // PEM: CAs of client certificates; empty: clients need none
  // Refuse clients without a certificate.
  bool require_client_certificate = true;
};

// The contents of the files, as PEM.
struct TlsMaterial {
  std::string certificate;
  std::string key;
  std::string client_ca;
  std::string subject;  // of the server's certificate: "CN=beamline"
  std::chrono::system_clock::time_point expires;
  // The earliest expiry in each file. Without a client_ca: the clock's epoch.
  std::chrono::system_clock::time_point chain_expires;
  std::chrono::system_clock::time_point client_ca_expires;

  bool operator==(const TlsMaterial&) const = default;
};

// INVALID_ARGUMENT or NOT_FOUND, one line naming the setting, the file and the fault: a missing
// file, no PEM, the key of another certificate, a key with a passphrase, a certificate that has
// expired or is not valid yet, or one that OpenSSL refuses (a short key, for example).
absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files);

// "2026-11-23 08:00:00 UTC".
std::string TimeText(std::chrono::system_clock::time_point time);

}  // namespace beamline
