// A running server: the gRPC services of one engine, health, reflection and /metrics.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "server/config/server_config.h"
#include "server/metrics/metrics.h"

namespace beamline {

class Server {
 public:
  // Serves until it is destroyed. `metrics` observes the engine. When a model's device fails for
  // good, the model and the server as a whole become NOT_SERVING, the log says so, and `on_fault`
  // is called, from an engine thread; the other models go on. INVALID_ARGUMENT or
  // UNAVAILABLE, naming the address or the setting, when it cannot listen or has no model_root.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config,
                                                       std::shared_ptr<Metrics> metrics,
                                                       std::unique_ptr<Engine> engine,
                                                       std::function<void()> on_fault = {});
  // Cancels the calls that run.
  virtual ~Server() = default;

  // "127.0.0.1:50051", with the port that was chosen.
  virtual std::string address() const = 0;
  // Empty when off.
  virtual std::string admin_address() const = 0;
  virtual std::string http_address() const = 0;
  virtual std::string health_address() const = 0;
  virtual std::string metrics_url() const = 0;
  // "translate-en-de, embed-en".
  virtual std::string model_names() const = 0;

  // Has idle models give back memory that larger steps have touched. Any thread.
  virtual void ReturnIdleMemory() = 0;
  // Writes to the log what the server has before it (state_log.h).
  virtual void LogState() const = 0;

  // Health becomes NOT_SERVING and new calls are UNAVAILABLE. Running calls go on for at most
  // `timeout`, except loads, which are ended. Then the ports close. Returns whether every request
  // had its whole answer.
  virtual bool Drain(std::chrono::milliseconds timeout) = 0;
};

}  // namespace beamline
