// Long because a server has many parts, which must start and end in order.
#include "server/process/server.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/status.h"
#include "base/worker_pool.h"
#include "fmt/format.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/grpcpp.h"
#include "server/calls/admission.h"
#include "server/calls/message_budget.h"
#include "server/calls/model_directory.h"
#include "server/config/num_writers.h"
#include "server/http/http_listener.h"
#include "server/http/metrics_endpoint.h"
#include "server/http/scraper.h"
#include "server/net/acceptor.h"
#include "server/net/descriptors.h"
#include "server/net/hang_up.h"
#include "server/net/listening.h"
#include "server/net/received_bytes.h"
#include "server/net/side_listener.h"
#include "server/process/connection_guard.h"
#include "server/process/tls_config.h"
#include "server/protocols/kserve/infer_service.h"
#include "server/protocols/tei/tei_services.h"
#include "server/security/metadata_limits.h"
#include "server/services/health.h"
#include "server/services/health_service.h"
#include "server/services/inference_service.h"
#include "server/services/models_service.h"
#include "server/telemetry/log/model_log.h"
#include "server/telemetry/log/state_log.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

constexpr int kSpareStreams = 100;
// A request of gRPC's health service names a service only.
constexpr int kMostHealthBytes = 4 << 10;
// Time limit of a message with an extra slot (MessageBudget).
constexpr std::chrono::milliseconds kExtraTime{10'000};
// Time after the engine's drain for last messages to reach clients.
constexpr std::chrono::milliseconds kFlushTime{2000};
// Time for last answers to be sent and connections to close, once no call runs.
constexpr std::chrono::milliseconds kCloseTime{100};

class ServerImpl final : public Server {
 public:
  ServerImpl(const ServerConfig& config, std::shared_ptr<Metrics> metrics,
             std::unique_ptr<Engine> engine)
      : metrics_(std::move(metrics)),
        writers_(NumWriters(config)),
        engine_(std::move(engine)),
        models_(engine_->Models()),
        has_admin_(config.admin_listen != "off"),
        admission_(config.max_concurrent_requests),
        unread_(config.max_unread_bytes),
        room_(config.max_unread_bytes),
        messages_({.bytes = config.max_unfinished_bytes,
                   .message_bytes = config.max_receive_bytes,
                   .time = std::chrono::milliseconds(config.unfinished_timeout_ms),
                   .extra_time = std::min(kExtraTime,
                                          std::chrono::milliseconds(config.unfinished_timeout_ms)),
                   .received = &ReceivedBytes},
                  metrics_->messages()),
        quotas_({.each = {config.tokens_per_second, config.token_burst}}, metrics_->quotas()),
        services_{*engine_,
                  models_,
                  admission_,
                  *metrics_,
                  writers_,
                  engine_->text_workers(),
                  {config.max_outstanding_per_stream, config.max_send_bytes, config.max_priority},
                  nullptr,
                  {.json = config.log_format == "json", .all = config.log_requests == "all"},
                  nullptr,
                  &unread_,
                  &messages_,
                  &room_,
                  &huge_texts_,
                  &quotas_} {}

  ~ServerImpl() override {
    metrics_endpoint_.reset();
    metrics_->SetEngine(nullptr);
    acceptor_.reset();
    http_listener_.reset();
    scraper_.reset();  // uses the engine
    EndAdmin();
    health_listener_.reset();
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
    engine_.reset();  // before the workers, which carry out its last answers
  }

  absl::Status Listen(const ServerConfig& config);
  absl::Status ListenForMetrics(const ServerConfig& config);
  absl::Status ListenForAdmin(const ServerConfig& config);
  absl::Status ListenForHealth(const ServerConfig& config);
  absl::Status ListenForHttp(const ServerConfig& config);
  absl::Status ServeHttp(const ServerConfig& config, const std::string& where);
  // The last step of a start, when all descriptors that stay open are open.
  absl::Status Accept(const ServerConfig& config);
  // Calls on_fault for devices that fail from now on, and for those that have failed already.
  void WatchForFaults(std::function<void()> on_fault);
  void WatchForChanges();

  std::string address() const override { return address_.text; }
  std::string admin_address() const override {
    return admin_listener_ == nullptr ? "" : admin_listener_->address();
  }
  std::string http_address() const override {
    return http_listener_ == nullptr ? "" : http_listener_->address();
  }
  std::string health_address() const override {
    return health_listener_ == nullptr ? "" : health_listener_->address();
  }
  std::string metrics_url() const override { return metrics_url_; }
  std::string model_names() const override { return models_.Names(); }
  void ReturnIdleMemory() override { engine_->ReturnIdleMemory(); }
  void LogState() const override { beamline::LogState(*engine_, services_.request_log.json); }
  bool Drain(std::chrono::milliseconds timeout) override;

 private:
  GuardedKind Kind() const { return tls_ == nullptr ? GuardedKind::kPlain : GuardedKind::kTls; }
  absl::Status MakeGate(const ServerConfig& config);
  void SendSpans(const ServerConfig& config);
  void Configure(const ServerConfig& config, grpc::ServerBuilder& builder);
  // Ends loads and unloads, with answers to their clients, and closes the admin listener.
  void EndAdmin();

  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<SpanExporter> spans_;  // null: no spans are sent; calls end on the threads below
  WorkerPool writers_;
  WorkerPool huge_texts_{1};
  std::unique_ptr<Engine> engine_;
  ModelDirectory models_;
  const bool has_admin_;
  Admission admission_;
  UnreadAnswers unread_;
  AnswerRoom room_;
  MessageBudget messages_;
  TokenQuotas quotas_;
  std::unique_ptr<Gate> gate_;  // null: no authentication
  ServiceContext services_;
  InferenceService inference_{services_};
  HealthService health_service_{services_};
  HealthService side_health_{services_};  // at health_listen
  ModelsService models_service_{
      services_, has_admin_ ? AdminAccess::kElsewhere : AdminAccess::kNowhere, nullptr};
  std::unique_ptr<InferService> infer_service_;  // null: protocol is off
  std::unique_ptr<TeiServices> tei_services_;    // null: protocol is off
  std::unique_ptr<ModelAdmin> admin_;
  std::unique_ptr<ModelsService> admin_service_;
  std::shared_ptr<TlsSource> tls_;        // null: plain text
  std::optional<ConnectionGuard> guard_;  // from Listen on
  std::unique_ptr<SideListener> admin_listener_;
  std::unique_ptr<SideListener> health_listener_;
  OpenAddress address_;  // keeps the sockets until the acceptor takes them
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Connections> connections_;
  std::unique_ptr<Health> health_;
  std::unique_ptr<Acceptor> acceptor_;
  std::unique_ptr<Scraper> scraper_;  // for http_listener_'s /metrics; null: none
  std::unique_ptr<HttpListener> http_listener_;
  std::unique_ptr<MetricsEndpoint> metrics_endpoint_;
  std::string metrics_url_;
};

void ServerImpl::Configure(const ServerConfig& config, grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(config.max_receive_bytes);
  builder.SetMaxSendMessageSize(config.max_send_bytes);
  LeaveOutCompression(builder);
  // channelz is not used, and would count every call.
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  // Room for refusals and health checks above admission's limit.
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                             config.max_concurrent_requests + kSpareStreams);
  builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesOfGrpc);
  // A client can send 64 KiB, HTTP/2's first window, of a request that is not read yet
  // (message_gate.h). The window does not grow without BDP probes. Of a request that is read it may
  // send all.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
                             config.min_ping_interval_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Keepalive pings detect clients that disappeared. Their requests are cancelled.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, config.keepalive_interval_ms);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, config.keepalive_timeout_ms);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, config.handshake_timeout_ms);
  if (config.max_connection_idle_ms > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, config.max_connection_idle_ms);
  }
  if (config.max_connection_age_ms > 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, config.max_connection_age_ms);
  }
  builder.RegisterService(&inference_);
  builder.RegisterService(&models_service_);
  builder.RegisterService(&health_service_);
  if (IsListed(config.protocols, "kserve")) {
    infer_service_ = std::make_unique<InferService>(services_);
    builder.RegisterService(infer_service_.get());
  }
  if (IsListed(config.protocols, "tei")) {
    tei_services_ = std::make_unique<TeiServices>(
        services_, TeiSettings{config.max_concurrent_requests, config.tokenizer_threads});
    for (const auto& service : tei_services_->services()) builder.RegisterService(service.get());
  }
}

void ServerImpl::SendSpans(const ServerConfig& config) {
  if (config.otlp_endpoint == "off") return;
  spans_ = std::make_unique<SpanExporter>(
      SpanExporter::Options{.collector = config.otlp_endpoint, .fraction = config.trace_fraction},
      metrics_->spans());
  services_.spans = spans_.get();
}

absl::Status ServerImpl::MakeGate(const ServerConfig& config) {
  std::unique_ptr<IdentitySource> identities;
  if (!config.identity_file.empty()) {
    const auto listener = [this](const Identities& read) { quotas_.SetOwn(read.quotas()); };
    BEAMLINE_ASSIGN_OR_RETURN(identities, IdentitySource::Open(config.identity_file, listener));
  } else if (config.tls_client_ca_file.empty()) {
    return absl::OkStatus();
  }
  gate_ = std::make_unique<Gate>(std::move(identities), config.isolate_identities);
  services_.gate = gate_.get();
  return absl::OkStatus();
}

absl::Status ServerImpl::Listen(const ServerConfig& config) {
  if (const std::optional<TlsFiles> files = TlsFilesOf(config)) {
    BEAMLINE_ASSIGN_OR_RETURN(tls_, TlsSource::Open(*files, &metrics_->certificates()));
  }
  BEAMLINE_RETURN_IF_ERROR(MakeGate(config));
  SendSpans(config);
  guard_.emplace(config, metrics_->guard());
  BEAMLINE_ASSIGN_OR_RETURN(address_, ListenAt("listen", config.listen));
  BEAMLINE_RETURN_IF_ERROR(guard_->Check("listen", address_, Kind()));
  if (tls_ == nullptr) WarnOfPlainText("listen", address_);
  grpc::EnableDefaultHealthCheckService(false);  // health_service.h
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  grpc::ServerBuilder builder;
  Configure(config, builder);
  if (!config.identity_file.empty()) LeaveOutReflection(builder);
  connections_ = AddConnections(tls_, builder);
  server_ = builder.BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC does not start");
  health_ = std::make_unique<Health>(health_service_, engine_->Models());
  return absl::OkStatus();
}

absl::Status ServerImpl::Accept(const ServerConfig& config) {
  // gRPC and HTTP connections have limits of their own, but share the process's descriptors.
  const int num_beside = (metrics_endpoint_ != nullptr ? 1 : 0) +
                         (health_listener_ != nullptr ? 1 : 0) +
                         (admin_listener_ != nullptr ? 1 : 0);
  BEAMLINE_ASSIGN_OR_RETURN(
      const int32_t limit,
      ConnectionsThatFit(config.max_connections, http_listener_ == nullptr ? 1 : 2, num_beside));
  if (limit < config.max_connections) {
    spdlog::warn(
        "max_connections is {}; the limit of open files (ulimit -n) leaves room for {}, and no "
        "more are taken",
        config.max_connections, limit);
  }
  const AcceptorOptions options = {
      .max_connections = limit,
      .max_connections_per_peer = config.max_connections_per_peer,
      .handshake_timeout = std::chrono::milliseconds(config.handshake_timeout_ms),
      .first_bytes = FirstBytes(tls_),
      .watches_floods = tls_ == nullptr,
      .paces_peers = true,
      .http_hint = HttpHint(http_address()),
      .max_handshakes = tls_ == nullptr ? 0 : config.max_handshakes};
  const auto on_accepting = [this](bool accepting) { health_->SetAccepting(accepting); };
  BEAMLINE_ASSIGN_OR_RETURN(
      acceptor_, Acceptor::Start(std::move(address_.sockets), options, HandOverTo(*connections_),
                                 on_accepting, metrics_->connections()));
  if (health_listener_ != nullptr) BEAMLINE_RETURN_IF_ERROR(health_listener_->Accept());
  if (http_listener_ != nullptr) BEAMLINE_RETURN_IF_ERROR(http_listener_->Accept(limit));
  return absl::OkStatus();
}

absl::Status ServerImpl::ListenForHealth(const ServerConfig& config) {
  if (config.health_listen == "off") return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(OpenAddress address, ListenAt("health_listen", config.health_listen));
  BEAMLINE_RETURN_IF_ERROR(guard_->Check("health_listen", address, GuardedKind::kPlain));
  BEAMLINE_ASSIGN_OR_RETURN(health_listener_,
                            SideListener::Start(config, {.address = std::move(address),
                                                         .service = &side_health_,
                                                         .max_receive_bytes = kMostHealthBytes}));
  health_->Add(side_health_);
  return absl::OkStatus();
}

absl::Status ServerImpl::ListenForMetrics(const ServerConfig& config) {
  if (config.metrics_listen == "off") return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(const HostPort listen,
                            ParseHostPort("metrics_listen", config.metrics_listen));
  metrics_->SetEngine(engine_.get());
  BEAMLINE_ASSIGN_OR_RETURN(metrics_endpoint_,
                            MetricsEndpoint::Listen(listen.host, listen.port, metrics_));
  metrics_url_ = fmt::format("http://{}:{}/metrics", listen.host, metrics_endpoint_->port());
  return absl::OkStatus();
}

absl::Status ServerImpl::ListenForAdmin(const ServerConfig& config) {
  if (!has_admin_) return absl::OkStatus();
  BEAMLINE_ASSIGN_OR_RETURN(ModelRoot root, ModelRoot::Open(config.model_root));
  admin_ = std::make_unique<ModelAdmin>(
      std::move(root),
      ModelAdmin::Defaults{[config](ModelOptions& model) { FillFrom(config, model); },
                           std::chrono::milliseconds(config.drain_timeout_ms)});
  admin_service_ = std::make_unique<ModelsService>(services_, AdminAccess::kHere, admin_.get());
  BEAMLINE_ASSIGN_OR_RETURN(OpenAddress address, ListenAt("admin_listen", config.admin_listen));
  BEAMLINE_RETURN_IF_ERROR(guard_->Check("admin_listen", address, Kind()));
  if (tls_ == nullptr) WarnOfPlainText("admin_listen", address);
  BEAMLINE_ASSIGN_OR_RETURN(
      admin_listener_, SideListener::Start(config, {.address = std::move(address),
                                                    .tls = tls_,
                                                    .service = admin_service_.get(),
                                                    .max_receive_bytes = config.max_receive_bytes,
                                                    .has_reflection = true,
                                                    // The health listener has no long calls.
                                                    .busy_ports = &admin_->busy_ports()}));
  return admin_listener_->Accept();
}

absl::Status ServerImpl::ListenForHttp(const ServerConfig& config) {
  if (config.http_listen == "off") return absl::OkStatus();
  if (config.http_listen != kAutoHttp) return ServeHttp(config, config.http_listen);
  // The default HTTP address is optional: a failure there is only a warning.
  const absl::Status status = ServeHttp(config, kAutoHttpAddress);
  if (!status.ok()) {
    spdlog::warn(
        "HTTP is not answered: {}; set http_listen to another address, or to off to be silent "
        "about it",
        std::string(status.message()));
  }
  return absl::OkStatus();
}

absl::Status ServerImpl::ServeHttp(const ServerConfig& config, const std::string& where) {
  BEAMLINE_ASSIGN_OR_RETURN(OpenAddress address, ListenAt("http_listen", where));
  if (tls_ == nullptr) WarnOfPlainText("http_listen", address);
  OperatorPages pages{.version = IsListed(config.http_paths, "version")};
  if (IsListed(config.http_paths, "metrics")) {
    metrics_->SetEngine(engine_.get());
    scraper_ = std::make_unique<Scraper>(metrics_);
    pages.scrape = [this](const std::shared_ptr<Exchange>& exchange) {
      scraper_->Answer(exchange);
    };
  }
  BEAMLINE_ASSIGN_OR_RETURN(http_listener_, HttpListener::Start(
                                                config, std::move(address), tls_, services_,
                                                [this] { return health_->IsServing(); },
                                                std::move(pages), metrics_->http()));
  return absl::OkStatus();
}

void ServerImpl::EndAdmin() {
  if (admin_ == nullptr) return;
  engine_->Drain(std::chrono::milliseconds(0));
  admin_->Finish();
  admin_listener_.reset();
}

void ServerImpl::WatchForChanges() {
  engine_->OnModelChange([this](const ModelInfo& model) {
    if (model.state == ModelState::kLoading) metrics_->AddModel(model.name);
    models_.Update(engine_->Models());
    health_->SetState(model);
    LogChange(model);
  });
  engine_->OnReplicaChange([this](const ReplicaChange& change) {
    models_.Update(engine_->Models());
    health_->SetCanAnswer(change.model, change.model_can_answer);
    LogChange(change);
  });
}

void ServerImpl::WatchForFaults(std::function<void()> on_fault) {
  engine_->OnFault(
      [this, on_fault = std::move(on_fault)](const ModelInfo& model, const absl::Status& fault) {
        health_->SetCanAnswer(model, false);
        spdlog::error("{}", std::string(fault.message()));
        if (on_fault) on_fault();
      });
}

bool ServerImpl::Drain(std::chrono::milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  health_->StartDraining();
  admission_.StartDraining();
  if (http_listener_ != nullptr) http_listener_->StartDraining();
  const bool finished = engine_->Drain(timeout);
  // Calls that the engine has answered may still be writing. gRPC's Shutdown waits until its
  // deadline while any client is connected, so the wait for calls is here: until the timeout, or
  // for a moment after it.
  const auto flushed =
      std::min(Clock::now() + kFlushTime, std::max(deadline, Clock::now() + kCloseTime));
  while (finished && admission_.running() > 0 && Clock::now() < flushed) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EndAdmin();
  if (http_listener_ != nullptr) http_listener_->Close(kCloseTime);
  acceptor_.reset();  // no new connections
  if (admission_.running() == 0) HangUpAnswered(address_.port);
  server_->Shutdown(std::chrono::system_clock::now() + kCloseTime);
  return finished;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config,
                                                      std::shared_ptr<Metrics> metrics,
                                                      std::unique_ptr<Engine> engine,
                                                      std::function<void()> on_fault) {
  if (IsListed(config.metrics_names, "vllm")) metrics->AddVllmNames();
  auto server = std::make_unique<ServerImpl>(config, std::move(metrics), std::move(engine));
  BEAMLINE_RETURN_IF_ERROR(server->Listen(config));
  BEAMLINE_RETURN_IF_ERROR(server->ListenForMetrics(config));
  BEAMLINE_RETURN_IF_ERROR(server->ListenForHealth(config));
  server->WatchForFaults(std::move(on_fault));
  server->WatchForChanges();
  BEAMLINE_RETURN_IF_ERROR(server->ListenForAdmin(config));
  // After the configured addresses, one of which may be the default of http_listen.
  BEAMLINE_RETURN_IF_ERROR(server->ListenForHttp(config));
  BEAMLINE_RETURN_IF_ERROR(server->Accept(config));
  return server;
}

}  // namespace beamline
