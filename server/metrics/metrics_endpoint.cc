#include "server/metrics/metrics_endpoint.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <exception>
#include <future>

#include "fmt/format.h"

namespace beamline {
namespace {

// Opens a connection and closes it.
void Knock(std::string host, int port) {
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  addrinfo* address = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &address) != 0) return;
  const int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd >= 0) {
    static_cast<void>(connect(fd, address->ai_addr, address->ai_addrlen));
    close(fd);
  }
  freeaddrinfo(address);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Listen(
    const std::string& host, int port, std::shared_ptr<prometheus::Collectable> metrics) {
  const std::string address = fmt::format("{}:{}", host, port);
  std::unique_ptr<MetricsEndpoint> endpoint(new MetricsEndpoint());
  try {
    endpoint->exposer_ = std::make_unique<prometheus::Exposer>(address, /*num_threads=*/2);
    endpoint->exposer_->RegisterCollectable(metrics);
    endpoint->port_ = endpoint->exposer_->GetListeningPorts().at(0);
  } catch (const std::exception&) {
    return absl::UnavailableError(
        fmt::format("cannot listen on {} for metrics: the address is in use or not one of this "
                    "machine",
                    address));
  }
  endpoint->host_ = host;
  return endpoint;
}

MetricsEndpoint::~MetricsEndpoint() {
  // civetweb sees that it is to stop when somebody connects, else only every two seconds.
  auto stopped = std::async(std::launch::async, [this] { exposer_.reset(); });
  while (stopped.wait_for(std::chrono::milliseconds(5)) != std::future_status::ready) {
    Knock(host_, port_);
  }
}

}  // namespace beamline
