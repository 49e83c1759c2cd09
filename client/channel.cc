#include "client/channel.h"

#include <string_view>

namespace beamline {
namespace {

bool Has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const std::optional<TlsOptions>& tls,
                                           grpc::ChannelArguments arguments) {
  if (!tls.has_value()) {
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  }
  if (!tls->server_name.empty()) arguments.SetSslTargetNameOverride(tls->server_name);
  return grpc::CreateCustomChannel(target,
                                   grpc::SslCredentials({.pem_root_certs = tls->root_certificates,
                                                         .pem_private_key = tls->private_key,
                                                         .pem_cert_chain = tls->certificate_chain}),
                                   arguments);
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
