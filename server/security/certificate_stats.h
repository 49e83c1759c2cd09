// Expiry times of the server's certificates, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

// The earliest expiry in a file, in seconds since 1970. 0: no such file. Written by the reader of
// the files, read by any thread.
struct CertificateStats {
  std::atomic<int64_t> server_expires{0};     // of tls_certificate_file
  std::atomic<int64_t> client_ca_expires{0};  // of tls_client_ca_file
};

}  // namespace beamline
