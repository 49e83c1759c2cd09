#include "server/http/http_listener.h"

#include <algorithm>
#include <utility>

#include "base/status.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;

HttpOptions OptionsOf(const ServerConfig& config) {
  HttpOptions options;
  options.max_body_bytes = static_cast<size_t>(config.max_receive_bytes);
  options.max_bodies_bytes = std::max(options.max_bodies_bytes, options.max_body_bytes);
  options.head_time = milliseconds(config.handshake_timeout_ms);
  options.idle_time = milliseconds(config.max_connection_idle_ms);
  options.age = milliseconds(config.max_connection_age_ms);
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HttpListener>> HttpListener::Start(
    const ServerConfig& config, OpenAddress address, std::shared_ptr<TlsSource> tls,
    ServiceContext& services, std::function<bool()> is_serving, OperatorPages pages,
    HttpStats& stats) {
  std::unique_ptr<HttpListener> listener(
      new HttpListener(config, std::move(address), tls != nullptr, services, std::move(is_serving),
                       std::move(pages), stats));
  BEAMLINE_ASSIGN_OR_RETURN(
      listener->connections_,
      HttpConnections::Start(OptionsOf(config), listener->handler_, stats, std::move(tls)));
  return listener;
}

HttpListener::HttpListener(const ServerConfig& config, OpenAddress address, bool has_tls,
                           ServiceContext& services, std::function<bool()> is_serving,
                           OperatorPages pages, HttpStats& stats)
    : address_(std::move(address)),
      stats_(stats),
      acceptor_options_{.max_connections_per_peer = config.max_connections_per_peer,
                        .handshake_timeout = milliseconds(config.handshake_timeout_ms),
                        .first_bytes = has_tls ? kTlsHandshake : kAnyByte,
                        .max_handshakes = has_tls ? config.max_handshakes : 0},
      handler_(services, std::move(is_serving), std::move(pages)) {
  acceptor_options_.is_idle = [this](int fd) { return connections_->IsIdle(fd); };
}

HttpListener::~HttpListener() { acceptor_.reset(); }

absl::Status HttpListener::Accept(int32_t max_connections) {
  acceptor_options_.max_connections = max_connections;
  BEAMLINE_ASSIGN_OR_RETURN(
      acceptor_, Acceptor::Start(
                     std::move(address_.sockets), acceptor_options_,
                     [this](int fd) { connections_->Take(fd); }, [](bool) {}, stats_.connections));
  return absl::OkStatus();
}

void HttpListener::Close(milliseconds time) {
  acceptor_.reset();
  connections_->Finish(time);
}

}  // namespace beamline
