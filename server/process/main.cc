// beamline-server. Exit status: 0 after a clean end; 1 when it cannot serve (any more); 2 for a
// wrong command line or configuration. With --health: 0 when the server is SERVING, else 1.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/build_info.h"
#include "base/process_room.h"
#include "base/standard_streams.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/api/engine.h"
#include "engine/api/follower.h"
#include "engine/api/gpu_need.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/config/algorithm_file_path.h"
#include "server/config/config_file.h"
#include "server/config/environment.h"
#include "server/config/flags.h"
#include "server/config/num_writers.h"
#include "server/config/process_options.h"
#include "server/net/descriptors.h"
#include "server/process/loading_mark.h"
#include "server/process/memory_trim.h"
#include "server/process/notify.h"
#include "server/process/server.h"
#include "server/process/shutdown_signal.h"
#include "server/process/tls_config.h"
#include "server/security/identities.h"
#include "server/services/health_check.h"
#include "server/telemetry/log/logging.h"
#include "server/telemetry/log/model_log.h"
#include "server/telemetry/metrics/metrics.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

int Fail(int exit_code, const absl::Status& status) {
  fmt::print(stderr, "{}", ErrorLine("beamline-server", status));
  return exit_code;
}

int PrintAndEnd(const std::string& text) {
  Print(text);
  const absl::Status status = FlushStandardOutput();
  return status.ok() ? 0 : Fail(1, status);
}

// Shorter than the default timeout of supervisors' checks, so that this program's own message tells
// why.
constexpr std::chrono::milliseconds kHealthTimeout{3000};

int PrintHealth(const CommandLine& line) {
  const auto tls = line.health_has_tls ? TlsFilesOf(line.config) : std::nullopt;
  const auto is_serving = AskHealth(line.health_address, kHealthTimeout, tls);
  if (absl::IsUnavailable(is_serving.status()) && IsLoading(line.health_address)) {
    PrintAndEnd("LOADING\n");
    return 1;
  }
  if (!is_serving.ok()) return Fail(1, is_serving.status());
  const int status = PrintAndEnd(*is_serving ? "SERVING\n" : "NOT_SERVING\n");
  return *is_serving ? status : 1;
}

EngineOptions ToEngineOptions(const ServerConfig& config, ProcessOptions processes) {
  EngineOptions options;
  options.processes = std::move(processes);
  options.models = config.models;
  for (ModelOptions& model : options.models) FillFrom(config, model);
  options.num_threads = config.threads;
  options.num_tokenizer_threads = config.tokenizer_threads;
  options.gpu_memory = config.gpu_memory;
  return options;
}

// Number of threads that a server starts in addition to its engine: gRPC's (without one of them
// gRPC aborts), its own, and one for unread answers.
int ThreadsOfServer(const ServerConfig& config) {
  constexpr int kAlways = 17;
  constexpr int kMostByCores = 16;  // of gRPC's threads
  constexpr int kOfListener = 5;
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  int num_threads = kAlways + std::min(cores, kMostByCores) + NumWriters(config);
  for (const std::string& address :
       {config.http_listen, config.health_listen, config.admin_listen}) {
    if (address != "off") num_threads += kOfListener;
  }
  return num_threads;
}

// Number of descriptors that it opens: its own, gRPC's, and some for calls.
int DescriptorsOfServer(const ServerConfig& config) {
  constexpr int kAlways = 24;
  constexpr int kOfListener = 6;
  int num_descriptors = kAlways;
  for (const std::string& address :
       {config.metrics_listen, config.http_listen, config.health_listen, config.admin_listen}) {
    if (address != "off") num_descriptors += kOfListener;
  }
  return num_descriptors;
}

absl::Status CheckSecrets(const ServerConfig& config) {
  if (const auto tls = TlsFilesOf(config)) {
    const auto read = ReadTlsFiles(*tls);
    if (!read.ok()) return read.status();
  }
  return config.identity_file.empty() ? absl::OkStatus()
                                      : ReadIdentities(config.identity_file).status();
}

class LoggingMetrics final : public Metrics {
 public:
  using Metrics::Metrics;
  void OnChoice(const std::string& model, const std::string& line) override {
    spdlog::debug("model '{}': {}", model, line);
  }
  void OnLoading(const std::string& model, const std::string& line) override {
    spdlog::info("model '{}': {}", model, line);
  }
};

// Takes exactly the GPU memory that the models need, if that is known and LoadModel is off. If that
// turns out to be too little, takes gpu_memory_fraction instead.
absl::StatusOr<std::unique_ptr<Engine>> CreateEngine(const ServerConfig& config,
                                                     const EngineOptions& options,
                                                     Metrics& metrics) {
  const bool is_open = config.gpu_memory.bytes == 0 && config.admin_listen == "off";
  const std::optional<int64_t> needed = is_open ? NeededGpuBytes(options) : std::nullopt;
  if (!needed.has_value()) return Engine::Create(options, &metrics);
  EngineOptions sized = options;
  sized.gpu_memory.bytes = *needed;
  spdlog::info("takes {} MiB of each GPU, which the models need as all caches have a size",
               *needed >> 20);
  auto engine = Engine::Create(sized, &metrics);
  if (!absl::IsResourceExhausted(engine.status())) return engine;
  spdlog::warn("{} MiB of a GPU are too few: {}; taking gpu_memory_fraction of it instead",
               *needed >> 20, std::string(engine.status().message()));
  return Engine::Create(options, &metrics);
}

// Creates the engine, and checks that the process has room for the server as well.
absl::StatusOr<std::unique_ptr<Engine>> MakeEngine(const ServerConfig& config,
                                                   const EngineOptions& options, Metrics& metrics) {
  const LoadingMark of_calls(config.listen), of_health(config.health_listen);
  auto engine = CreateEngine(config, options, metrics);
  if (!engine.ok()) return engine.status();
  constexpr int64_t kHeapOfServer = int64_t{64} << 20;
  BEAMLINE_RETURN_IF_ERROR(CheckAddressRoom(ThreadsOfServer(config), kHeapOfServer));
  BEAMLINE_RETURN_IF_ERROR(CheckThreadRoom(ThreadsOfServer(config)));
  BEAMLINE_RETURN_IF_ERROR(CheckDescriptorRoom(DescriptorsOfServer(config)));
  return engine;
}

void PrintStartLine(const Server& server) {
  std::vector<std::string> others;
  if (!server.metrics_url().empty()) others.push_back("metrics " + server.metrics_url());
  if (!server.admin_address().empty()) others.push_back("admin " + server.admin_address());
  if (!server.health_address().empty()) others.push_back("health " + server.health_address());
  if (!server.http_address().empty()) others.push_back("http " + server.http_address());
  Print(fmt::format("beamline-server: serving on {}{}: {}\n", server.address(),
                    others.empty() ? "" : fmt::format(" ({})", fmt::join(others, ", ")),
                    server.model_names()));
  const absl::Status status = FlushStandardOutput();
  if (!status.ok()) spdlog::warn("{}", std::string(status.message()));
}

// Runs a rank of a model that another process (rank 0) serves. Returns when rank 0 does not come
// back.
int Follow(const EngineOptions& options) {
  spdlog::info("{}", VersionLine("beamline-server"));
  const absl::Status status =
      FollowFronts(options, [](const std::string& line) { spdlog::info("{}", line); });
  return Fail(1, status);
}

void TellManager(const std::string& state) {
  if (!Notify(state))
    spdlog::warn("systemd could not be told: {}", state.substr(0, state.find('\n')));
}

int Main(int argc, char** argv) {
  PrepareStandardStreams();
  // Debian's abseil, and so gRPC, would otherwise keep a graph of the mutexes that each thread
  // holds.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  SetUpLogging();
  const Environment environment = ReadEnvironment(environ);
  const auto line = ParseCommandLine(argc, argv, environment);
  if (!line.ok()) return Fail(2, line.status());
  if (!line->text.empty()) return PrintAndEnd(line->text);
  // Before signals end the process with status 0: an interrupted check must not return 0.
  if (!line->health_address.empty()) return PrintHealth(*line);
  static ShutdownSignal shutdown_signal;  // its thread runs until the process ends
  const ServerConfig& config = line->config;
  if (line->print_config) return PrintAndEnd(PrintConfig(config));
  SetLogLevel(config.log_level);
  SetLogFormat(config.log_format);
  for (const std::string& warning : UnknownVariables(environment)) spdlog::warn("{}", warning);
  // The CUDA backend reads it. Set while no other thread reads the environment.
  setenv(kAlgorithmFileVariable, AlgorithmFilePath(config.algorithm_file).c_str(), 1);
  if (const absl::Status status = CheckPollStrategy(getenv(kPollStrategyVariable)); !status.ok()) {
    return Fail(2, status);
  }
  RaiseDescriptorLimit();
  auto processes = ReadProcessOptions(config);
  if (!processes.ok()) return Fail(2, processes.status());
  const EngineOptions options = ToEngineOptions(config, *std::move(processes));
  if (options.processes.rank > 0) return Follow(options);

  // Before the models are read, which may take long.
  if (const absl::Status status = CheckSecrets(config); !status.ok()) return Fail(1, status);

  auto metrics = std::make_shared<LoggingMetrics>(config.models);
  auto engine = MakeEngine(config, options, *metrics);
  if (!engine.ok()) return Fail(1, engine.status());
  const std::vector<ModelInfo> models = (*engine)->Models();
  std::atomic<bool> faulted = false;
  const auto end_after_fault = [&faulted] {
    faulted = true;
    shutdown_signal.Request();
  };
  shutdown_signal.StartServing();
  const bool exits = config.on_device_fault == "exit";
  auto server = Server::Start(config, metrics, *std::move(engine),
                              exits ? std::function<void()>(end_after_fault) : nullptr);
  if (!server.ok()) return Fail(1, server.status());
  spdlog::info("{}", VersionLine("beamline-server"));
  for (const ModelInfo& model : models) LogReady(model);
  // Before clients and systemd learn that the server is ready.
  shutdown_signal.OnUserSignal([&server] { (*server)->LogState(); });
  PrintStartLine(**server);
  TellManager(fmt::format("READY=1\nSTATUS=Serving on {}: {}", (*server)->address(),
                          (*server)->model_names()));

  {
    const MemoryTrim trim({.return_others = [&server] { (*server)->ReturnIdleMemory(); }});
    shutdown_signal.Wait();
  }
  TellManager("STOPPING=1\nSTATUS=Finishing what runs");
  spdlog::info("shutting down: finishing what runs, at most {} ms", config.drain_timeout_ms);
  const bool finished = (*server)->Drain(std::chrono::milliseconds(config.drain_timeout_ms));
  shutdown_signal.OnUserSignal(nullptr);
  server->reset();
  spdlog::info(finished ? "stopped: every request was answered"
                        : "stopped: the drain timeout cancelled what was still running");
  return faulted ? 1 : 0;
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  beamline::LimitArenas();
  try {
    return beamline::Main(argc, argv);
  } catch (const std::system_error& error) {
    return beamline::Fail(
        1, absl::ResourceExhaustedError(fmt::format("no thread can be started: {}", error.what())));
  } catch (const std::bad_alloc&) {
    return beamline::Fail(1, absl::ResourceExhaustedError("the system refuses memory to start"));
  }
}
