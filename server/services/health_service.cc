#include "server/services/health_service.h"

#include <optional>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"
#include "server/calls/failed_call.h"
#include "server/calls/message_gate.h"
#include "server/wire/errors.h"
#include "server/wire/wire.h"

namespace beamline {
namespace {

namespace health_api = grpc::health::v1;

// The same limits as in gRPC's own health service.
constexpr size_t kMostServiceBytes = 200;
constexpr size_t kMostRequestBytes = 4 << 10;

// The service that the request names.
absl::StatusOr<std::string> NameIn(const grpc::ByteBuffer& request) {
  if (!request.Valid()) return absl::InvalidArgumentError("the call ended without a request");
  if (request.Length() > kMostRequestBytes) {
    return absl::InvalidArgumentError(fmt::format("the request has {} bytes; accepted: up to {}",
                                                  request.Length(), kMostRequestBytes));
  }
  health_api::HealthCheckRequest message;
  BEAMLINE_RETURN_IF_ERROR(ParseMessage(request, message));
  if (message.service().size() <= kMostServiceBytes) return message.service();
  return FieldError("service", fmt::format("{} bytes long", message.service().size()),
                    fmt::format("a name of up to {} bytes", kMostServiceBytes));
}

grpc::ByteBuffer AnswerOf(health_api::HealthCheckResponse::ServingStatus status) {
  health_api::HealthCheckResponse answer;
  answer.set_status(status);
  return SerializeMessage(answer);
}

int IndexOf(std::string_view method) {
  return MethodIndex(*health_api::HealthCheckRequest::descriptor()->file(), "Health", method);
}

}  // namespace

// Writes the current status whenever it differs from the last one written.
class HealthService::Watcher final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  Watcher(HealthService& service, std::string name) : service_(service), name_(std::move(name)) {}

  void Start() {
    {
      std::lock_guard lock(service_.mutex_);
      std::list<Watcher*>& all = service_.watchers_[name_];
      place_ = all.insert(all.end(), this);
      if (!HasToTell()) return;
    }
    Tell();
  }
  // REQUIRES the service's mutex_. True if there is something to write: call Tell then, without the
  // mutex. The call does not end before.
  bool HasToTell() {
    const Status status = service_.StatusOf(name_);
    if (is_writing_ || is_over_ || told_ == status) return false;
    told_ = status;
    is_writing_ = true;
    answer_ = AnswerOf(status);
    return true;
  }
  void Tell() { StartWrite(&answer_); }
  void OnWriteDone(bool ok) override {
    bool tells = false;
    {
      std::lock_guard lock(service_.mutex_);
      is_writing_ = false;
      is_over_ = is_over_ || !ok;
      tells = HasToTell();
      if (!tells && !is_over_) return;
    }
    if (tells) return Tell();
    Finish(grpc::Status::CANCELLED);
  }
  void OnCancel() override {
    {
      std::lock_guard lock(service_.mutex_);
      // OnWriteDone of the write in flight ends the call.
      if (std::exchange(is_over_, true) || is_writing_) return;
    }
    Finish(grpc::Status::CANCELLED);
  }
  void OnDone() override {
    {
      std::lock_guard lock(service_.mutex_);
      std::list<Watcher*>& all = service_.watchers_[name_];
      all.erase(place_);
      if (all.empty()) service_.watchers_.erase(name_);
    }
    delete this;
  }

 private:
  HealthService& service_;
  const std::string name_;
  std::list<Watcher*>::iterator place_;
  // Guarded by the service's mutex_:
  std::optional<Status> told_;
  grpc::ByteBuffer answer_;
  bool is_writing_ = false;
  bool is_over_ = false;
};

HealthService::HealthService(ServiceContext& services) {
  const MethodAccess access = {.rpc = std::nullopt, .right = Right::kAny, .is_open = true};
  MarkMethodStreamed(IndexOf("Check"),
                     GatedUnary(services, access, BindMethod<&HealthService::Check>(this)));
  MarkMethodStreamed(IndexOf("Watch"), GatedStream(services, access,
                                                   [this](grpc::CallbackServerContext* context,
                                                          const grpc::ByteBuffer* request) {
                                                     return Watch(context, request);
                                                   }));
}

HealthService::Status HealthService::StatusOf(const std::string& name) const {
  const auto found = serving_.find(name);
  if (found == serving_.end()) return health_api::HealthCheckResponse::SERVICE_UNKNOWN;
  return found->second ? health_api::HealthCheckResponse::SERVING
                       : health_api::HealthCheckResponse::NOT_SERVING;
}

void HealthService::SetServingStatus(const std::string& name, bool is_serving) {
  std::vector<Watcher*> tell;
  {
    std::lock_guard lock(mutex_);
    serving_[name] = is_serving;
    AddWatchers(name, tell);
  }
  for (Watcher* const watcher : tell) watcher->Tell();
}

void HealthService::SetServingStatus(bool is_serving) {
  std::vector<Watcher*> tell;
  {
    std::lock_guard lock(mutex_);
    for (auto& [name, value] : serving_) {
      value = is_serving;
      AddWatchers(name, tell);
    }
  }
  for (Watcher* const watcher : tell) watcher->Tell();
}

void HealthService::AddWatchers(const std::string& name, std::vector<Watcher*>& tell) {
  const auto found = watchers_.find(name);
  if (found == watchers_.end()) return;
  for (Watcher* const watcher : found->second) {
    if (watcher->HasToTell()) tell.push_back(watcher);
  }
}

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext*,
                                               const grpc::ByteBuffer* request,
                                               grpc::ByteBuffer* response) {
  const auto name = NameIn(*request);
  if (!name.ok()) return new FailedUnaryCall(ToGrpcStatus(name.status()));
  Status status;
  {
    std::lock_guard lock(mutex_);
    status = StatusOf(*name);
  }
  if (status == health_api::HealthCheckResponse::SERVICE_UNKNOWN) {
    return new FailedUnaryCall(
        ToGrpcStatus(absl::NotFoundError(fmt::format("there is no service '{}'", Shorten(*name)))));
  }
  *response = AnswerOf(status);
  return new FailedUnaryCall(grpc::Status::OK);
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* HealthService::Watch(grpc::CallbackServerContext*,
                                                                 const grpc::ByteBuffer* request) {
  auto name = NameIn(*request);
  if (!name.ok()) return new FailedStreamCall(ToGrpcStatus(name.status()));
  auto* watcher = new Watcher(*this, *std::move(name));
  watcher->Start();
  return watcher;
}

}  // namespace beamline
