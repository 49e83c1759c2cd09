#include "server/http/metrics_endpoint.h"

#include <chrono>
#include <optional>
#include <utility>

#include "base/status.h"
#include "fmt/format.h"
#include "server/http/connections.h"
#include "server/http/scraper.h"
#include "server/net/acceptor.h"
#include "server/net/descriptors.h"
#include "server/net/listen_socket.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kUnacknowledged{20000};  // of a scraper that disappeared
// Limit from a connection's start to its complete request.
constexpr milliseconds kRequestTime{5000};
constexpr milliseconds kWriteTime{10000};
constexpr milliseconds kIdleTime{300000};  // longer than the scrape interval
constexpr size_t kMostBodyBytes = 64 << 10;
constexpr size_t kMostBodiesBytes = 1 << 20;

HttpOptions Options() {
  HttpOptions options;
  options.max_body_bytes = kMostBodyBytes;
  options.max_bodies_bytes = kMostBodiesBytes;
  options.head_time = kRequestTime;
  options.body_time = kRequestTime;
  options.write_time = kWriteTime;
  options.idle_time = kIdleTime;
  options.gives_place_unread = true;
  return options;
}

// Serves /metrics only.
class MetricsHandler final : public HttpHandler {
 public:
  explicit MetricsHandler(std::shared_ptr<prometheus::Collectable> metrics)
      : scraper_(std::move(metrics)) {}

  std::optional<HttpAnswer> CheckHead(HttpRequest& request) override {
    if (request.path != "/metrics") return Fault(404, "accepted: /metrics");
    if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
    HttpAnswer answer = Fault(405, "accepted: GET, HEAD");
    answer.headers.emplace_back("Allow", "GET, HEAD");
    return answer;
  }

  void Handle(const std::shared_ptr<Exchange>& exchange) override { scraper_.Answer(exchange); }

  HttpAnswer Fault(int status, const std::string& message) override {
    return {.status = status, .body = message + "\n", .content_type = "text/plain; charset=utf-8"};
  }

 private:
  Scraper scraper_;
};

class Endpoint final : public MetricsEndpoint {
 public:
  explicit Endpoint(std::shared_ptr<prometheus::Collectable> metrics)
      : handler_(std::move(metrics)) {}

  absl::Status Start(ListenSockets sockets) {
    port_ = sockets.port;
    BEAMLINE_ASSIGN_OR_RETURN(connections_,
                              HttpConnections::Start(Options(), handler_, stats_, nullptr));
    const AcceptorOptions options = {
        .max_connections = SidePlaces(),
        .max_connections_per_peer = SidePlacesOfPeer(),
        .handshake_timeout = kRequestTime,
        .first_bytes = kAnyByte,
        .is_idle = [this](int fd) { return connections_->IsIdle(fd); }};
    BEAMLINE_ASSIGN_OR_RETURN(
        acceptor_, Acceptor::Start(
                       std::move(sockets), options, [this](int fd) { connections_->Take(fd); },
                       [](bool) {}, stats_.connections));
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  int port_ = 0;
  HttpStats stats_;
  MetricsHandler handler_;
  std::unique_ptr<HttpConnections> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(
    const std::string& host, int port, std::shared_ptr<prometheus::Collectable> metrics) {
  absl::StatusOr<ListenSockets> sockets = OpenListenSockets(host, port, kUnacknowledged);
  if (!sockets.ok()) {
    return absl::UnavailableError(
        fmt::format("/metrics cannot be served: {}", std::string(sockets.status().message())));
  }
  auto endpoint = std::make_unique<Endpoint>(std::move(metrics));
  BEAMLINE_RETURN_IF_ERROR(endpoint->Start(*std::move(sockets)));
  return endpoint;
}

}  // namespace beamline
