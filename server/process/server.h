// A running server: the gRPC services of one engine, health, reflection and /metrics.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "server/config/server_config.h"
#include "server/telemetry/metrics/metrics.h"

namespace beamline {

class Server {
 public:
  // Serves until it is destroyed. `metrics` observes the engine. If a model's device fails
  // permanently, the model and the server as a whole become NOT_SERVING. An error is logged, and
  // `on_fault` is called on an engine thread; other models go on. INVALID_ARGUMENT or UNAVAILABLE,
  // naming the address or the setting, if it cannot listen or has no model_root.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config,
                                                       std::shared_ptr<Metrics> metrics,
                                                       std::unique_ptr<Engine> engine,
                                                       std::function<void()> on_fault = {});
  // Cancels running calls.
  virtual ~Server() = default;

  // "127.0.0.1:50051", with the chosen port.
  virtual std::string address() const = 0;
  // The addresses below are empty when off.
  virtual std::string admin_address() const = 0;
  virtual std::string http_address() const = 0;
  virtual std::string health_address() const = 0;
  virtual std::string metrics_url() const = 0;
  // "translate-en-de, embed-en".
  virtual std::string model_names() const = 0;

  // Lets idle models return memory that larger steps have touched. Any thread.
  virtual void ReturnIdleMemory() = 0;
  // Logs the running and waiting requests (state_log.h).
  virtual void LogState() const = 0;

  // Drains the server: health becomes NOT_SERVING and new calls get UNAVAILABLE. Running calls go
  // on for at most `timeout`, except loads, which are ended. Then the ports close. Returns true if
  // every request had its complete answer.
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;
};

}  // namespace beamline
