// beamline-server: exit status 0 after a clean end, 1 when it cannot serve, 2 for a wrong command
// line or configuration.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "fmt/format.h"
#include "server/config/config_file.h"
#include "server/config/flags.h"
#include "server/logging.h"
#include "server/metrics/metrics.h"
#include "server/server.h"
#include "server/shutdown_signal.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

int Fail(int exit_code, const absl::Status& status) {
  fmt::print(stderr, "beamline-server: {}\n", std::string(status.message()));
  return exit_code;
}

EngineOptions ToEngineOptions(const ServerConfig& config) {
  EngineOptions options;
  options.models = config.models;
  for (ModelOptions& model : options.models) model.device = config.device;
  options.num_threads = config.threads;
  options.num_tokenizer_threads = config.tokenizer_threads;
  return options;
}

class LoggingMetrics final : public Metrics {
 public:
  using Metrics::Metrics;
  void OnChoice(const std::string& model, const std::string& line) override {
    spdlog::debug("model '{}': {}", model, line);
  }
};

void LogDevices(const std::vector<ModelInfo>& models) {
  for (const ModelInfo& model : models) {
    spdlog::info("model '{}' computes in {} on {} ({}): {}", model.name, Name(model.dtype),
                 model.device, model.device_description, model.device_reason);
  }
}

void PrintStartLine(const Server& server) {
  const std::string metrics =
      server.metrics_url().empty() ? "" : fmt::format(" (metrics {})", server.metrics_url());
  fmt::print("beamline-server: serving on {}{}: {}\n", server.address(), metrics,
             server.model_names());
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  const auto line = ParseCommandLine(argc, argv);
  if (!line.ok()) return Fail(2, line.status());
  if (!line->text.empty()) {
    fmt::print("{}", line->text);
    return 0;
  }
  const ServerConfig& config = line->config;
  if (line->print_config) {
    fmt::print("{}", PrintConfig(config));
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  static ShutdownSignal shutdown_signal;  // its thread goes on until the process ends
  SetUpLogging(config.log_level);

  auto metrics = std::make_shared<LoggingMetrics>(config.models);
  auto engine = Engine::Create(ToEngineOptions(config), metrics.get());
  if (!engine.ok()) return Fail(1, engine.status());
  const std::vector<ModelInfo> models = (*engine)->Models();
  auto server = Server::Start(config, metrics, *std::move(engine));
  if (!server.ok()) return Fail(1, server.status());
  LogDevices(models);
  PrintStartLine(**server);

  shutdown_signal.Wait();
  spdlog::info("shutting down: finishing what runs, at most {} ms", config.drain_timeout_ms);
  const bool finished = (*server)->Drain(std::chrono::milliseconds(config.drain_timeout_ms));
  server->reset();
  spdlog::info(finished ? "stopped: every request was answered"
                        : "stopped: the drain timeout cancelled what was still running");
  return 0;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) { return beamline::Main(argc, argv); }
