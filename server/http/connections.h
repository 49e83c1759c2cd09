// The connections of an HTTP listener and the few threads that they share, which never compute.
#pragma once

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "server/http/exchange.h"
#include "server/http/http_options.h"
#include "server/metrics/http_stats.h"
#include "server/security/tls_credentials.h"

namespace beamline {

class HttpConnections {
 public:
  // Handler and stats outlive it. `tls` null: plain text. It opens all descriptors that it needs
  // beside those of connections; UNAVAILABLE when there are none.
  static absl::StatusOr<std::unique_ptr<HttpConnections>> Start(const HttpOptions& options,
                                                                HttpHandler& handler,
                                                                HttpStats& stats,
                                                                std::shared_ptr<TlsSource> tls);
  // Ends them all, and waits until what they had running has ended.
  virtual ~HttpConnections() = default;

  // Any thread. Owns the descriptor.
  virtual void Take(int fd) = 0;
  // Whether the connection owes its client nothing, so that its place may be a new one's. On the
  // thread that calls Take.
  virtual bool IsIdle(int fd) = 0;
  // From now on each answer ends its connection.
  virtual void StartDraining() = 0;
  // Closes those that wait for a request, gives others `time` for their answers.
  virtual void Finish(std::chrono::milliseconds time) = 0;
};

}  // namespace beamline
