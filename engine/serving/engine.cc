#include "engine/api/engine.h"

#include <future>
#include <span>
#include <string>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "engine/intake/encode_intake.h"
#include "engine/intake/generate_intake.h"
#include "engine/intake/score_intake.h"
#include "engine/serving/entrance.h"
#include "engine/serving/replica.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

class EngineImpl : public Engine {
 public:
  explicit EngineImpl(const EngineOptions& options) : entrance_(options.num_tokenizer_threads) {}
  // What has been accepted reaches its replica, which ends it.
  ~EngineImpl() override {
    entrance_.Close();
    replicas_.clear();
  }

  absl::Status Load(const EngineOptions& options, EngineObserver* observer);

  absl::StatusOr<std::shared_ptr<RequestHandle>> Generate(
      GenerateRequest request, std::shared_ptr<GenerateSink> sink) override {
    return Accept<GenerateIntake>(std::move(request), std::move(sink));
  }
  absl::StatusOr<std::shared_ptr<RequestHandle>> Encode(EncodeRequest request,
                                                        std::shared_ptr<EncodeSink> sink) override {
    return Accept<EncodeIntake>(std::move(request), std::move(sink));
  }
  absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request,
                                                       std::shared_ptr<ScoreSink> sink) override {
    return Accept<ScoreIntake>(std::move(request), std::move(sink));
  }

  absl::StatusOr<const Tokenizer*> FindTokenizer(const std::string& model) const override {
    BEAMLINE_ASSIGN_OR_RETURN(const Replica* replica, Find(model));
    return replica->model().tokenizer.get();
  }
  std::vector<ModelInfo> Models() const override {
    std::vector<ModelInfo> models;
    for (const auto& replica : replicas_) models.push_back(replica->model().info);
    return models;
  }
  absl::StatusOr<ModelInfo> FindModel(const std::string& model) const override {
    BEAMLINE_ASSIGN_OR_RETURN(const Replica* replica, Find(model));
    return replica->model().info;
  }
  absl::StatusOr<ModelStats> Stats(const std::string& model) const override {
    BEAMLINE_ASSIGN_OR_RETURN(const Replica* replica, Find(model));
    ModelStats stats = replica->stats().Read();
    stats.can_answer = replica->fault().status().ok();
    if (const Speculation* speculation = replica->model().speculation.get()) {
      stats.speculative_proposed = speculation->proposed();
      stats.speculative_accepted = speculation->accepted();
    }
    stats.memory = replica->model().backend->MemoryUsage();
    stats.unused_device_bytes = replica->model().backend->FreeMemory();
    return stats;
  }
  void OnFault(FaultListener listener) override {
    for (const auto& replica : replicas_) {
      replica->fault().Listen([listener, name = replica->model().options.name](
                                  const absl::Status& fault) { listener(name, fault); });
    }
  }
  bool Drain(std::chrono::milliseconds timeout) override { return entrance_.Drain(timeout); }

 private:
  absl::StatusOr<Replica*> Find(const std::string& name) const;
  template <typename Intake>
  absl::StatusOr<std::shared_ptr<RequestHandle>> Accept(
      typename Intake::Request request, std::shared_ptr<typename Intake::Sink> sink) {
    BEAMLINE_ASSIGN_OR_RETURN(Replica * replica, Find(request.model));
    return entrance_.Accept<Intake>(std::move(request), std::move(sink), *replica);
  }

  Entrance entrance_;
  std::vector<std::unique_ptr<Replica>> replicas_;
};

absl::Status EngineImpl::Load(const EngineOptions& options, EngineObserver* observer) {
  for (size_t i = 0; i < options.models.size(); ++i) {
    const ModelOptions& model = options.models[i];
    if (model.name.empty() || Find(model.name).ok()) {
      const std::string value = fmt::format("'{}'", model.name);
      return FieldError({.field = "name",
                         .value = value,
                         .text = fmt::format("model name {} is empty or given twice", value)});
    }
    LoadContext context = {.num_threads = options.num_threads,
                           .gpu_memory = options.gpu_memory,
                           .later_models = std::span(options.models).subspan(i + 1)};
    if (observer != nullptr) {
      context.log = [observer, name = model.name](const std::string& line) {
        observer->OnChoice(name, line);
      };
    }
    BEAMLINE_ASSIGN_OR_RETURN(auto loaded, LoadedModel::Load(model, context));
    replicas_.push_back(std::make_unique<Replica>(std::move(loaded), observer));
  }
  return absl::OkStatus();
}

absl::StatusOr<Replica*> EngineImpl::Find(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& replica : replicas_) {
    if (replica->model().options.name == name) return replica.get();
    names.push_back(replica->model().options.name);
  }
  return absl::NotFoundError(
      fmt::format("model is '{}'; this server has: {}", Shorten(name), fmt::join(names, ", ")));
}

// Waits for one answer.
template <typename Sink, typename Result>
class WaitingSink : public Sink {
 public:
  void OnFinish(absl::StatusOr<Result> result) override { promise_.set_value(std::move(result)); }
  absl::StatusOr<Result> Wait() { return promise_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<Result>> promise_;
};

}  // namespace

absl::StatusOr<GenerateResult> Engine::GenerateAndWait(GenerateRequest request) {
  auto sink = std::make_shared<WaitingSink<GenerateSink, GenerateResult>>();
  BEAMLINE_RETURN_IF_ERROR(Generate(std::move(request), sink).status());
  return sink->Wait();
}

absl::StatusOr<EncodeResult> Engine::EncodeAndWait(EncodeRequest request) {
  auto sink = std::make_shared<WaitingSink<EncodeSink, EncodeResult>>();
  BEAMLINE_RETURN_IF_ERROR(Encode(std::move(request), sink).status());
  return sink->Wait();
}

absl::StatusOr<ScoreResult> Engine::ScoreAndWait(ScoreRequest request) {
  auto sink = std::make_shared<WaitingSink<ScoreSink, ScoreResult>>();
  BEAMLINE_RETURN_IF_ERROR(Score(std::move(request), sink).status());
  return sink->Wait();
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                                       EngineObserver* observer) {
  if (options.models.empty()) return absl::InvalidArgumentError("no model to serve");
  BEAMLINE_RETURN_IF_ERROR(
      CheckInt("num_threads", options.num_threads, 0, EngineOptions::kMostThreads));
  BEAMLINE_RETURN_IF_ERROR(CheckInt("num_tokenizer_threads", options.num_tokenizer_threads, 1,
                                    EngineOptions::kMostTokenizerThreads));
  BEAMLINE_RETURN_IF_ERROR(CheckGpuMemoryLimit(options.gpu_memory));
  auto engine = std::make_unique<EngineImpl>(options);
  BEAMLINE_RETURN_IF_ERROR(engine->Load(options, observer));
  return engine;
}

}  // namespace beamline
