// TLS for the server's listeners, with certificates that are read anew when their files change.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/security/certificate_stats.h"
#include "server/security/file_watch.h"
#include "server/security/tls_files.h"

namespace beamline {

// Thread safe. What new connections are served with: the files as they were last found faultless.
// A change with a fault changes nothing, and the log says so.
class TlsSource {
 public:
  // Errors are those of ReadTlsFiles. `stats`, which outlives the source, is told when the
  // certificates end; null: nobody is.
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

// For one server of gRPC's.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(std::shared_ptr<TlsSource> source);

}  // namespace beamline
