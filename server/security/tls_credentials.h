// TLS for the server's listeners, with certificates that are read anew when their files change.
#pragma once

#include <memory>
#include <mutex>

#include "absl/status/statusor.h"
#include "grpcpp/security/server_credentials.h"
#include "server/security/file_watch.h"
#include "server/security/tls_files.h"

namespace beamline {

// Thread safe. What new connections are served with: the files as they were last found faultless.
// A change with a fault changes nothing, and the log says so.
class TlsSource {
 public:
  // Errors are those of ReadTlsFiles.
  static absl::StatusOr<std::shared_ptr<TlsSource>> Open(
      const TlsFiles& files, std::chrono::milliseconds interval = std::chrono::milliseconds(500));

  const TlsFiles& files() const { return files_; }
  std::shared_ptr<const TlsMaterial> Current() const;

 private:
  TlsSource(const TlsFiles& files, TlsMaterial material);
  void Reload();

  const TlsFiles files_;
  mutable std::mutex mutex_;
  std::shared_ptr<const TlsMaterial> current_;  // guarded by mutex_
  std::unique_ptr<FileWatch> watch_;
};

// For one server of gRPC's.
std::shared_ptr<grpc::ServerCredentials> TlsCredentials(std::shared_ptr<TlsSource> source);

}  // namespace beamline
