// The connections of an HTTP listener, and the few threads that they share. These threads never
// compute.
#pragma once

#include <chrono>
#include <memory>

#include "absl/status/statusor.h"
#include "server/http/exchange.h"
#include "server/http/http_options.h"
#include "server/security/tls_credentials.h"
#include "server/telemetry/metrics/http_stats.h"

namespace beamline {

class HttpConnections {
 public:
  // `handler` and `stats` outlive it. `tls`: null for plain text. Opens all descriptors that it
  // needs in addition to those of connections. UNAVAILABLE if none are left.
  static absl::StatusOr<std::unique_ptr<HttpConnections>> Start(const HttpOptions& options,
                                                                HttpHandler& handler,
                                                                HttpStats& stats,
                                                                std::shared_ptr<TlsSource> tls);
  // Closes all connections, and waits until their requests have ended.
  virtual ~HttpConnections() = default;

  // Any thread. Owns the descriptor.
  virtual void Take(int fd) = 0;
  // True if the connection owes its client no answer, so that it may be closed for a new one. Call
  // on the thread that calls Take.
  virtual bool IsIdle(int fd) = 0;
  // From now on each answer closes its connection.
  virtual void StartDraining() = 0;
  // Closes connections that wait for a request. Gives the others `time` for their answers.
  virtual void Finish(std::chrono::milliseconds time) = 0;
};

}  // namespace beamline
