#include "server/calls/admin_calls.h"

#include <utility>

#include "absl/strings/cord.h"
#include "base/status.h"
#include "beamline/v1/models.pb.h"
#include "engine/text/tokenizer.h"
#include "fmt/format.h"
#include "server/calls/model_calls.h"
#include "server/config/server_config.h"
#include "server/wire/errors.h"
#include "server/wire/model_options.h"
#include "server/wire/response.h"

namespace beamline {
namespace {

// A model that does not fit now will not fit in a moment, so clients should not retry soon.
absl::Status NotSoon(absl::Status status) {
  if (absl::IsResourceExhausted(status)) status.SetPayload(kNotSoonPayload, absl::Cord());
  return status;
}

}  // namespace

absl::Status ModelAdmin::Run(Work work) {
  std::lock_guard lock(mutex_);
  if (finished_) return absl::UnavailableError("the server is shutting down");
  if (taken_ >= kMostAtOnce) {
    return absl::ResourceExhaustedError(fmt::format(
        "{} models are being loaded, unloaded or restarted, the most at once", kMostAtOnce));
  }
  ++taken_;
  ++running_;
  workers_.Post([this, work = std::move(work)] {
    const std::function<void()> tell = work();
    {
      std::lock_guard done(mutex_);
      --taken_;
    }
    tell();
    std::lock_guard told(mutex_);
    --running_;
    idle_.notify_all();
  });
  return absl::OkStatus();
}

void ModelAdmin::Finish() {
  std::unique_lock lock(mutex_);
  finished_ = true;
  idle_.wait(lock, [this] { return running_ == 0; });
}

void LoadModelCall::Start(const grpc::ByteBuffer& buffer) {
  absl::Status status = Prepare(buffer);
  if (status.ok()) status = admin_.Run([this] { return Load(); });
  if (!status.ok()) Fail(status);
}

absl::Status LoadModelCall::Prepare(const grpc::ByteBuffer& buffer) {
  v1::LoadModelRequest request;
  BEAMLINE_RETURN_IF_ERROR(state().Parse(buffer, request));
  BEAMLINE_RETURN_IF_ERROR(CheckLoadName(request.name()));
  BEAMLINE_ASSIGN_OR_RETURN(options_, ToModelOptions(request));
  BEAMLINE_ASSIGN_OR_RETURN(options_.folder, admin_.root().Resolve(options_.folder));
  // Links may change after this check. The path is checked again when files are opened.
  options_.folder_root = admin_.root().path();
  admin_.defaults().fill(options_);
  return absl::OkStatus();
}

std::function<void()> LoadModelCall::Load() {
  const auto model = services().engine.Load(options_);
  if (!model.ok()) return Failing(NotSoon(InLoadModelRequest(model.status())));
  state().SetModel(model->name);
  return Replying(ToMessage(services(), *model));
}

void UnloadModelCall::Start(const grpc::ByteBuffer& buffer) {
  absl::Status status = Prepare(buffer);
  if (status.ok()) status = admin_.Run([this] { return Unload(); });
  if (!status.ok()) Fail(status);
}

absl::Status UnloadModelCall::Prepare(const grpc::ByteBuffer& buffer) {
  v1::UnloadModelRequest request;
  BEAMLINE_RETURN_IF_ERROR(state().Parse(buffer, request));
  name_ = request.name();
  BEAMLINE_ASSIGN_OR_RETURN(version_, ToVersion(request));
  BEAMLINE_ASSIGN_OR_RETURN(grace_, ToGrace(request, admin_.defaults().grace));
  return absl::OkStatus();
}

std::function<void()> UnloadModelCall::Unload() {
  Engine& engine = services().engine;
  // The answer needs num_template_tokens. The tokenizer that knows it goes with the model.
  int32_t num_template_tokens = 0;
  if (const auto tokenizer = engine.FindTokenizer(
          version_ == 0 ? name_ : fmt::format("{}{}{}", name_, kVersionSeparator, version_));
      tokenizer.ok()) {
    num_template_tokens = (*tokenizer)->num_template_tokens();
  }
  const auto model = engine.Unload(name_, version_, grace_);
  if (!model.ok()) return Failing(model.status());
  v1::UnloadModelResponse response;
  *response.mutable_model() = ToMessage(*model, num_template_tokens);
  return Replying(std::move(response));
}

void RestartReplicaCall::Start(const grpc::ByteBuffer& buffer) {
  absl::Status status = Prepare(buffer);
  if (status.ok()) status = admin_.Run([this] { return Restart(); });
  if (!status.ok()) Fail(status);
}

absl::Status RestartReplicaCall::Prepare(const grpc::ByteBuffer& buffer) {
  v1::RestartReplicaRequest request;
  BEAMLINE_RETURN_IF_ERROR(state().Parse(buffer, request));
  name_ = request.name();
  replica_ = request.replica();
  BEAMLINE_ASSIGN_OR_RETURN(version_, ToVersion(request));
  BEAMLINE_ASSIGN_OR_RETURN(grace_, ToGrace(request, admin_.defaults().grace));
  return absl::OkStatus();
}

std::function<void()> RestartReplicaCall::Restart() {
  const auto model = services().engine.RestartReplica(name_, version_, replica_, grace_);
  if (!model.ok()) return Failing(NotSoon(model.status()));
  return Replying(ToMessage(services(), *model));
}

}  // namespace beamline
