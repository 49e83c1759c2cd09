#include "server/net/listening.h"

#include <chrono>
#include <utility>
#include <vector>

#include "base/status.h"
#include "fmt/format.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/impl/server_builder_plugin.h"
#include "server/config/server_config.h"
#include "server/net/received_bytes.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

// TCP_USER_TIMEOUT: the kernel closes a connection whose client has not acknowledged data for this
// time.
constexpr std::chrono::milliseconds kUnacknowledged{20000};

// gRPC's reflection library adds a plugin to every builder of the process.
class WithoutReflection final : public grpc::ServerBuilderOption {
 public:
  void UpdateArguments(grpc::ChannelArguments*) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    std::erase_if(*plugins,
                  [](const auto& plugin) { return plugin->name() == "proto_server_reflection"; });
  }
};

}  // namespace

absl::StatusOr<OpenAddress> ListenAt(const std::string& setting, const std::string& value) {
  BEAMLINE_ASSIGN_OR_RETURN(const HostPort listen, ParseHostPort(setting, value));
  OpenAddress opened;
  BEAMLINE_ASSIGN_OR_RETURN(opened.sockets,
                            OpenListenSockets(listen.host, listen.port, kUnacknowledged));
  opened.port = opened.sockets.port;
  opened.text = fmt::format("{}:{}", listen.host, opened.port);
  return opened;
}

void WarnOfPlainText(const std::string& setting, const OpenAddress& address) {
  if (!OthersReach(address.sockets)) return;
  spdlog::warn(
      "{} is {}, which other machines reach, WITHOUT TLS: who is on the way reads and changes what "
      "is sent; set tls_certificate_file and tls_key_file, or listen on 127.0.0.1 behind a proxy",
      setting, address.text);
}

std::unique_ptr<Connections> AddConnections(const std::shared_ptr<TlsSource>& tls,
                                            grpc::ServerBuilder& builder) {
  return builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      tls == nullptr ? grpc::InsecureServerCredentials() : TlsCredentials(tls));
}

std::string HttpHint(const std::string& http_address) {
  return http_address.empty()
             ? "this address speaks gRPC; HTTP is answered at http_listen, which is off"
             : fmt::format("this address speaks gRPC; HTTP is answered at {} (http_listen)",
                           http_address);
}

void LeaveOutReflection(grpc::ServerBuilder& builder) {
  builder.SetOption(std::make_unique<WithoutReflection>());
}

void LeaveOutCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  // Without compression these filters have nothing to do, but look at every message.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_COMPRESSION, 0);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

std::string_view FirstBytes(const std::shared_ptr<TlsSource>& tls) {
  return tls == nullptr ? kHttp2Preface : kTlsHandshake;
}

Acceptor::HandOver HandOverTo(Connections& connections) {
  return [&connections](int fd) {  // gRPC closes it
    NoteConnection(fd);
    Connections::NewConnectionParameters connection;
    connection.fd = fd;
    connections.HandleNewConnection(&connection);
  };
}

}  // namespace beamline
