// The listener for OpenAI's API: its port, its connections and its handler.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/calls/call_state.h"
#include "server/config/server_config.h"
#include "server/http/connections.h"
#include "server/http/openai_handler.h"
#include "server/net/acceptor.h"
#include "server/net/listening.h"
#include "server/telemetry/metrics/http_stats.h"

namespace beamline {

class HttpListener {
 public:
  // `is_serving`: the result of /health; any thread. `services` and `stats` outlive the listener.
  // UNAVAILABLE if there are no descriptors for its threads.
  static absl::StatusOr<std::unique_ptr<HttpListener>> Start(const ServerConfig& config,
                                                             OpenAddress address,
                                                             std::shared_ptr<TlsSource> tls,
                                                             ServiceContext& services,
                                                             std::function<bool()> is_serving,
                                                             OperatorPages pages, HttpStats& stats);
  // Cancels running requests.
  ~HttpListener();

  // Serves from now on, with at most `max_connections` connections.
  absl::Status Accept(int32_t max_connections);
  // "127.0.0.1:8000".
  const std::string& address() const { return address_.text; }
  // From now on each answer closes its connection.
  void StartDraining() { connections_->StartDraining(); }
  // Accepts no more connections, and gives the existing ones `time` for their answers.
  void Close(std::chrono::milliseconds time);

 private:
  HttpListener(const ServerConfig& config, OpenAddress address, bool has_tls,
               ServiceContext& services, std::function<bool()> is_serving, OperatorPages pages,
               HttpStats& stats);

  OpenAddress address_;
  HttpStats& stats_;
  AcceptorOptions acceptor_options_;
  OpenAiHandler handler_;
  std::unique_ptr<HttpConnections> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace beamline
