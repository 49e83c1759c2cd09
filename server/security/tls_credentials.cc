#include "server/security/tls_credentials.h"

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/status.h"
#include "grpc/grpc_security.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

// Gives gRPC the current certificates. gRPC asks for them before each handshake.
class Fetcher {
 public:
  explicit Fetcher(std::shared_ptr<TlsSource> source) : source_(std::move(source)) {}

  grpc_server_credentials* MakeCredentials() {
    const TlsFiles& files = source_->files();
    const auto request = files.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                         : files.require_client_certificate
                             ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                             : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
    return grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, Fetch, this));
  }

 private:
  static grpc_ssl_certificate_config_reload_status Fetch(
      void* fetcher, grpc_ssl_server_certificate_config** config) {
    return static_cast<Fetcher*>(fetcher)->FetchInto(config);
  }

  grpc_ssl_certificate_config_reload_status FetchInto(grpc_ssl_server_certificate_config** config) {
    std::shared_ptr<const TlsMaterial> current = source_->Current();
    std::lock_guard lock(mutex_);
    if (current == given_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair = {current->key.c_str(), current->certificate.c_str()};
    // gRPC 1.51 requires root certificates even when it requests no client certificate. They are
    // unused then.
    const std::string& roots =
        current->client_ca.empty() ? current->certificate : current->client_ca;
    *config = grpc_ssl_server_certificate_config_create(roots.c_str(), &pair, 1);
    given_ = std::move(current);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  const std::shared_ptr<TlsSource> source_;
  std::mutex mutex_;
  std::shared_ptr<const TlsMaterial> given_;  // guarded by mutex_
};

// gRPC's C++ interface has no credentials with a fetcher, but its C interface has. The C++ base
// class is abstract up to about gRPC 1.53; in newer versions it holds the C credentials itself.
template <typename Base, bool is_abstract = std::is_abstract_v<Base>>
class FetchingCredentials final : public Base {
 public:
  explicit FetchingCredentials(std::unique_ptr<Fetcher> fetcher)
      : fetcher_(std::move(fetcher)), credentials_(fetcher_->MakeCredentials()) {}
  ~FetchingCredentials() override { grpc_server_credentials_release(credentials_); }
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  const std::unique_ptr<Fetcher> fetcher_;
  grpc_server_credentials* const credentials_;
};

template <typename Base>
class FetchingCredentials<Base, false> final : public Base {
 public:
  explicit FetchingCredentials(std::unique_ptr<Fetcher> fetcher)
      : Base(fetcher->MakeCredentials()), fetcher_(std::move(fetcher)) {}
  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}

 private:
  const std::unique_ptr<Fetcher> fetcher_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<TlsSource>> TlsSource::Open(const TlsFiles& files,
                                                           CertificateStats* stats,
                                                           std::chrono::milliseconds interval) {
  BEAMLINE_ASSIGN_OR_RETURN(TlsMaterial material, ReadTlsFiles(files));
  std::shared_ptr<TlsSource> source(new TlsSource(files, std::move(material), stats));
  std::vector<std::string> paths = {files.certificate, files.key};
  if (!files.client_ca.empty()) paths.push_back(files.client_ca);
  source->watch_ = std::make_unique<FileWatch>(
      std::move(paths), [watched = source.get()] { watched->Reload(); }, interval);
  source->Reload();  // for files that changed before the watch
  return source;
}

TlsSource::TlsSource(const TlsFiles& files, TlsMaterial material, CertificateStats* stats)
    : files_(files),
      stats_(stats),
      current_(std::make_shared<const TlsMaterial>(std::move(material))) {
  TellTimes(*current_);
}

void TlsSource::TellTimes(const TlsMaterial& material) {
  if (stats_ == nullptr) return;
  const auto seconds = [](std::chrono::system_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  };
  stats_->server_expires = seconds(material.chain_expires);
  stats_->client_ca_expires = seconds(material.client_ca_expires);
}

std::shared_ptr<const TlsMaterial> TlsSource::Current() const {
  std::lock_guard lock(mutex_);
  return current_;
}

void TlsSource::Reload() {
  auto read = ReadTlsFiles(files_);
  if (!read.ok()) {
    spdlog::error("the certificates are not read anew, and the last ones are used on: {}",
                  std::string(read.status().message()));
    return;
  }
  {
    std::lock_guard lock(mutex_);
    if (*read == *current_) return;
    current_ = std::make_shared<const TlsMaterial>(*std::move(read));
  }
  const auto current = Current();
  TellTimes(*current);
  spdlog::info("new connections get the certificate {}, valid until {}", current->subject,
               TimeText(current->expires));
}

std::shared_ptr<grpc::ServerCredentials> TlsCredentials(std::shared_ptr<TlsSource> source) {
  return std::make_shared<FetchingCredentials<grpc::ServerCredentials>>(
      std::make_unique<Fetcher>(std::move(source)));
}

}  // namespace beamline
