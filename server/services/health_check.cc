#include "server/services/health_check.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/file.h"
#include "base/status.h"
#include "fmt/format.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

namespace {

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> CredentialsFor(const TlsFiles& files) {
  using grpc::experimental::StaticDataCertificateProvider;
  BEAMLINE_ASSIGN_OR_RETURN(const std::string certificate,
                            ReadFile("tls_certificate_file", files.certificate, kMostTlsFileBytes));
  std::vector<grpc::experimental::IdentityKeyCertPair> own;
  if (!files.client_ca.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(std::string key,
                              ReadFile("tls_key_file", files.key, kMostTlsFileBytes));
    own.push_back({std::move(key), certificate});
  }
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(
      std::make_shared<StaticDataCertificateProvider>(certificate, own));
  options.watch_root_certs();
  if (!own.empty()) options.watch_identity_key_cert_pairs();
  options.set_verify_server_certs(false);
  options.set_check_call_host(false);
  options.set_certificate_verifier(std::make_shared<grpc::experimental::NoOpCertificateVerifier>());
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace

absl::StatusOr<bool> AskHealth(const std::string& address, std::chrono::milliseconds timeout,
                               const std::optional<TlsFiles>& tls) {
  grpc::ChannelArguments arguments;
  // Connects directly, whatever proxy the environment names.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (tls.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(credentials, CredentialsFor(*tls));
  }
  const auto channel = grpc::CreateCustomChannel(address, credentials, arguments);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = grpc::health::v1::Health::NewStub(channel)->Check(
      &context, grpc::health::v1::HealthCheckRequest(), &response);
  if (!status.ok()) {
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    return absl::Status(code, fmt::format("no health from {}: {}: {}", address,
                                          absl::StatusCodeToString(code), status.error_message()));
  }
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

}  // namespace beamline
