// When the certificates end that a server uses, for /metrics.
#pragma once

#include <atomic>
#include <cstdint>

namespace beamline {

// Seconds since 1970 of the first end among the certificates of a file; 0: there is no such file.
// Written by whoever reads the files, read by any thread.
struct CertificateStats {
  std::atomic<int64_t> server_expires{0};     // of tls_certificate_file
  std::atomic<int64_t> client_ca_expires{0};  // of tls_client_ca_file
};

}  // namespace beamline
