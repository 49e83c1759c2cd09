#include "client/channel.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "grpcpp/support/client_interceptor.h"

namespace beamline {
namespace {

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Replaces characters that metadata cannot hold (such as a line end, for which gRPC aborts the
// process) by question marks. The server then answers that the token is unknown.
std::string ValueOf(const std::string& token) {
  std::string value = "Bearer " + token;
  std::ranges::replace_if(
      value, [](unsigned char c) { return c < ' ' || c > '~'; }, '?');
  return value;
}

// gRPC's own call credentials require TLS, but a proxy may terminate TLS elsewhere.
class AddToken final : public grpc::experimental::Interceptor {
 public:
  explicit AddToken(const std::string& value) : value_(value) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using Point = grpc::experimental::InterceptionHookPoints;
    if (methods->QueryInterceptionHookPoint(Point::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", value_);
    }
    methods->Proceed();
  }

 private:
  const std::string value_;
};

class AddTokenFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit AddTokenFactory(const std::string& token) : value_(ValueOf(token)) {}
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo*) override {
    return new AddToken(value_);  // gRPC deletes it
  }

 private:
  const std::string value_;
};

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const std::optional<TlsOptions>& tls,
                                           const std::string& token,
                                           grpc::ChannelArguments arguments) {
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (tls.has_value()) {
    if (!tls->server_name.empty()) arguments.SetSslTargetNameOverride(tls->server_name);
    credentials = grpc::SslCredentials({.pem_root_certs = tls->root_certificates,
                                        .pem_private_key = tls->private_key,
                                        .pem_cert_chain = tls->certificate_chain});
  }
  if (token.empty()) return grpc::CreateCustomChannel(target, credentials, arguments);
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> factories;
  factories.push_back(std::make_unique<AddTokenFactory>(token));
  return grpc::experimental::CreateCustomChannelWithInterceptors(target, credentials, arguments,
                                                                 std::move(factories));
}

std::string ConnectionHint(const std::string& message) {
  if (!Has(message, "failed to connect to all addresses")) return "";
  if (Has(message, "CERTIFICATE_VERIFY_FAILED") || Has(message, "certificate verify failed")) {
    return " (the server's certificate is of no authority that this client trusts, or is not valid "
           "now)";
  }
  if (Has(message, "Socket closed") || Has(message, "Connection reset") ||
      Has(message, "Broken pipe") || Has(message, "handshake")) {
    return " (the server there may speak TLS where this client does not, or the other way round, "
           "or "
           "ask for a client certificate)";
  }
  return "";
}

}  // namespace beamline
