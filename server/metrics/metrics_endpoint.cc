#include "server/metrics/metrics_endpoint.h"

#include <chrono>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/worker_pool.h"
#include "fmt/format.h"
#include "prometheus/counter.h"
#include "prometheus/registry.h"
#include "prometheus/summary.h"
#include "prometheus/text_serializer.h"
#include "server/accept/acceptor.h"
#include "server/accept/descriptors.h"
#include "server/accept/listen_socket.h"
#include "server/http/connections.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kUnacknowledged{20000};  // of a scraper that has vanished
// From a connection's first byte, or none, to a whole request.
constexpr milliseconds kRequestTime{5000};
constexpr milliseconds kWriteTime{10000};
constexpr milliseconds kIdleTime{300000};  // longer than scrapes are apart
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

// Answers what is asked. A scrape answers all that have come before it begins, so that many who ask
// at once cost as much as one.
class Scrapes final : public HttpHandler {
 public:
  explicit Scrapes(std::shared_ptr<prometheus::Collectable> metrics)
      : metrics_(std::move(metrics)) {}

  std::optional<HttpAnswer> CheckHead(HttpRequest& request) override {
    if (request.path != "/metrics") return Fault(404, "accepted: /metrics");
    if (request.method == "GET" || request.method == "HEAD") return std::nullopt;
    HttpAnswer answer = Fault(405, "accepted: GET, HEAD");
    answer.headers.emplace_back("Allow", "GET, HEAD");
    return answer;
  }

  void Handle(const std::shared_ptr<Exchange>& exchange) override {
    {
      std::lock_guard lock(mutex_);
      waiting_.push_back(exchange);
      if (waiting_.size() > 1) return;
    }
    thread_.Post([this] { Scrape(); });
  }

  HttpAnswer Fault(int status, const std::string& message) override {
    return {.status = status, .body = message + "\n", .content_type = "text/plain; charset=utf-8"};
  }

 private:
  void Scrape() {
    std::vector<std::shared_ptr<Exchange>> asking;
    {
      std::lock_guard lock(mutex_);
      asking = std::move(waiting_);
      waiting_.clear();
    }
    const auto begin = Clock::now();
    std::vector<prometheus::MetricFamily> families = metrics_->Collect();
    std::vector<prometheus::MetricFamily> own = registry_.Collect();
    std::move(own.begin(), own.end(), std::back_inserter(families));
    const std::string text = serializer_.Serialize(families);
    for (const auto& exchange : asking) {
      scrapes_.Increment();
      bytes_.Increment(static_cast<double>(text.size()));
      exchange->Answer({.body = text, .content_type = "text/plain; version=0.0.4; charset=utf-8"},
                       nullptr);
      const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
      times_.Observe(time.count());
    }
  }

  const std::shared_ptr<prometheus::Collectable> metrics_;
  const prometheus::TextSerializer serializer_;
  // Named as prometheus-cpp's own server names them.
  prometheus::Registry registry_;
  prometheus::Counter& bytes_ = prometheus::BuildCounter()
                                    .Name("exposer_transferred_bytes_total")
                                    .Help("Transferred bytes to metrics services")
                                    .Register(registry_)
                                    .Add({});
  prometheus::Counter& scrapes_ = prometheus::BuildCounter()
                                      .Name("exposer_scrapes_total")
                                      .Help("Number of times metrics were scraped")
                                      .Register(registry_)
                                      .Add({});
  prometheus::Summary& times_ =
      prometheus::BuildSummary()
          .Name("exposer_request_latencies")
          .Help("Latencies of serving scrape requests, in microseconds")
          .Register(registry_)
          .Add({}, prometheus::Summary::Quantiles{{0.5, 0.05}, {0.9, 0.01}, {0.99, 0.001}});
  std::mutex mutex_;
  std::vector<std::shared_ptr<Exchange>> waiting_;  // guarded by mutex_
  WorkerPool thread_{1};
};

class Endpoint final : public MetricsEndpoint {
 public:
  explicit Endpoint(std::shared_ptr<prometheus::Collectable> metrics)
      : scrapes_(std::move(metrics)) {}

  absl::Status Start(ListenSockets sockets) {
    port_ = sockets.port;
    BEAMLINE_ASSIGN_OR_RETURN(connections_,
                              HttpConnections::Start(Options(), scrapes_, stats_, nullptr));
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
  Scrapes scrapes_;
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
