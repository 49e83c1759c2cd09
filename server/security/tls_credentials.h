// TLS for the server's listeners, with certificates that are read again when their files change.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/security/certificate_stats.h"
#include "server/security/file_watch.h"
#include "server/security/tls_files.h"

namespace beamline {

// Thread safe. Holds the last valid version of the files, for new connections. A change with a
// fault is logged and ignored.
class TlsSource {
 public:
  // Errors are those of ReadTlsFiles. `stats` gets the certificates' expiry times and outlives the
  // source; may be null.
  static absl::StatusOr<std::shared_ptr<TlsSource>> Open(
      const TlsFiles& files, CertificateStats* stats = nullptr,
      std::chrono::milliseconds interval = std::chrono::milliseconds(500));

  const TlsFiles& files() const { return files_; }
  std::shared_ptr<const TlsMaterial> Current() const;

 private:
  TlsSource(const TlsFiles& files, TlsMaterial material, CertificateStats* stats);
  void Reload();
  void TellTimes(const TlsMaterial& material);

  const TlsFiles files_;
  CertificateStats* const stats_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsMaterial> current_;  // guarded by mutex_
  std::unique_ptr<FileWatch> watch_;
};

// For one gRPC server.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(std::shared_ptr<TlsSource> source);

}  // namespace beamline
