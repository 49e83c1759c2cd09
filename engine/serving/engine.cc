#include "engine/api/engine.h"

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/field_error.h"
#include "base/status.h"
#include "base/waiting_thread.h"
#include "engine/intake/classify_intake.h"
#include "engine/intake/classify_tokens_intake.h"
#include "engine/intake/encode_intake.h"
#include "engine/intake/fill_mask_intake.h"
#include "engine/intake/generate_intake.h"
#include "engine/intake/judge_intake.h"
#include "engine/intake/score_intake.h"
#include "engine/serving/entrance.h"
#include "engine/serving/lifecycle.h"
#include "engine/serving/registry.h"
#include "engine/serving/rerank_gather.h"

namespace beamline {
namespace {

class EngineImpl : public Engine {
 public:
  EngineImpl(const EngineOptions& options, EngineObserver* observer)
      : entrance_(options.num_tokenizer_threads), lifecycle_(options, observer, registry_) {}
  // What has been accepted reaches its replica, which ends it. Replicas that are being loaded use
  // the lifecycle, so that they end before it.
  ~EngineImpl() override {
    entrance_.Close();
    lifecycle_.StopLoads();
    registry_.StopAll();
  }

  absl::Status LoadConfigured() { return lifecycle_.LoadConfigured(); }

  WorkerPool& text_workers() override { return entrance_.workers(); }

  absl::StatusOr<std::shared_ptr<RequestHandle>> Generate(
      GenerateRequest request, std::shared_ptr<GenerateSink> sink) override {
    return Accept<GenerateIntake>(std::move(request), std::move(sink));
  }
  absl::StatusOr<std::shared_ptr<RequestHandle>> Encode(EncodeRequest request,
                                                        std::shared_ptr<EncodeSink> sink) override {
    return Accept<EncodeIntake>(std::move(request), std::move(sink));
  }
  absl::StatusOr<std::shared_ptr<RequestHandle>> Classify(
      ClassifyRequest request, std::shared_ptr<EncodeSink> sink) override {
    BEAMLINE_ASSIGN_OR_RETURN(Place place, registry_.Enter(request.model));
    if (request.query.has_value() && place.pool->facts().rerank != nullptr) {
      return Judge(std::move(request), std::move(sink), std::move(place));
    }
    return entrance_.Accept<ClassifyIntake>(std::move(request), std::move(sink), std::move(place));
  }
  absl::StatusOr<std::shared_ptr<RequestHandle>> ClassifyTokens(
      ClassifyTokensRequest request, std::shared_ptr<EncodeSink> sink) override {
    return Accept<ClassifyTokensIntake>(std::move(request), std::move(sink));
  }
  absl::StatusOr<std::shared_ptr<RequestHandle>> FillMask(
      FillMaskRequest request, std::shared_ptr<EncodeSink> sink) override {
    return Accept<FillMaskIntake>(std::move(request), std::move(sink));
  }
  absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request,
                                                       std::shared_ptr<ScoreSink> sink) override {
    return Accept<ScoreIntake>(std::move(request), std::move(sink));
  }

  absl::StatusOr<std::shared_ptr<const Tokenizer>> FindTokenizer(
      const std::string& model) const override {
    return registry_.FindTokenizer(model);
  }
  std::vector<ModelInfo> Models() const override { return registry_.Models(); }
  absl::StatusOr<ModelInfo> FindModel(const std::string& model) const override {
    return registry_.Find(model);
  }
  absl::StatusOr<ModelStats> Stats(const std::string& model) const override {
    return registry_.Stats(model);
  }
  std::vector<ReplicaSnapshot> Snapshot(std::chrono::milliseconds patience) const override {
    return registry_.Snapshot(patience);
  }
  void ReturnIdleMemory() override { registry_.ReturnIdleMemory(); }
  absl::StatusOr<ModelInfo> Load(const ModelOptions& options) override {
    return lifecycle_.Load(options);
  }
  absl::StatusOr<ModelInfo> Unload(const std::string& name, int32_t version,
                                   std::chrono::milliseconds grace) override {
    return lifecycle_.Unload(name, version, grace);
  }
  absl::StatusOr<ModelInfo> RestartReplica(const std::string& name, int32_t version,
                                           int32_t replica,
                                           std::chrono::milliseconds grace) override {
    return lifecycle_.RestartReplica(name, version, replica, grace);
  }
  void OnModelChange(ModelListener listener) override {
    registry_.OnModelChange(std::move(listener));
  }
  void OnFault(FaultListener listener) override { registry_.OnFault(std::move(listener)); }
  void OnReplicaChange(ReplicaListener listener) override {
    registry_.OnReplicaChange(std::move(listener));
  }
  bool Drain(std::chrono::milliseconds timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    lifecycle_.StopLoads();
    entrance_.StartDraining();
    const bool all = registry_.WaitForAll(deadline);
    lifecycle_.StopWaiting();
    return all;
  }

 private:
  template <typename Intake>
  absl::StatusOr<std::shared_ptr<RequestHandle>> Accept(
      typename Intake::Request&& request, std::shared_ptr<typename Intake::Sink> sink) {
    BEAMLINE_ASSIGN_OR_RETURN(Place place, registry_.Enter(request.model));
    return entrance_.Accept<Intake>(std::move(request), std::move(sink), std::move(place));
  }

  // Each document is a job, so that they share steps and cached beginnings.
  absl::StatusOr<std::shared_ptr<RequestHandle>> Judge(ClassifyRequest request,
                                                       std::shared_ptr<EncodeSink> sink,
                                                       Place place) {
    const std::shared_ptr<ReplicaPool> pool = place.pool;
    BEAMLINE_RETURN_IF_ERROR(JudgeIntake::CheckAll(request, pool->facts()));
    const size_t count = request.inputs.size();
    auto gather = std::make_shared<RerankGather>(
        count, request.function.value_or(ScoreFunction::kSigmoid), std::move(sink));
    JudgeRequest one = {.model = pool->facts().info.versioned_name,
                        .query = std::make_shared<const std::string>(*std::move(request.query)),
                        .document = {},
                        .truncate = request.truncate,
                        .priority = request.priority,
                        .client = request.client,
                        .cache_salt = request.cache_salt,
                        .deadline = request.deadline,
                        .charge = request.charge};
    for (size_t i = 0; i < count; ++i) {
      one.index = i;
      one.document = std::get<std::string>(std::move(request.inputs[i]));
      absl::StatusOr<Place> next = std::move(place);
      if (i > 0) next = registry_.Enter(one.model);
      auto job = next.ok() ? entrance_.Accept<JudgeIntake>(JudgeRequest(one), gather->SinkOf(i),
                                                           *std::move(next))
                           : absl::StatusOr<std::shared_ptr<RequestHandle>>(next.status());
      if (!job.ok()) {
        // Refused as a whole, unless a document before this one has failed already.
        if (gather->Abandon()) return job.status();
        break;
      }
      gather->Add(*std::move(job));
    }
    return gather;
  }

  Entrance entrance_;
  Registry registry_;
  Lifecycle lifecycle_;
};

// Waits for one answer.
template <typename Sink, typename Result>
class WaitingSink : public Sink {
 public:
  void OnFinish(absl::StatusOr<Result> result) override {
    promise_.set_value(std::move(result));
    is_answered_.store(true, std::memory_order_relaxed);
  }
  bool is_answered() const { return is_answered_.load(std::memory_order_relaxed); }
  absl::StatusOr<Result> Wait() { return promise_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<Result>> promise_;
  std::atomic<bool> is_answered_ = false;
};

// Asks by `ask`, which is given the sink, and waits for the answer, which the thread may be left to
// compute (base/waiting_thread.h).
template <typename Sink, typename Result, typename Ask>
absl::StatusOr<Result> AskAndWait(const Ask& ask) {
  auto sink = std::make_shared<WaitingSink<Sink, Result>>();
  const auto is_answered = [&sink] { return sink->is_answered(); };
  {
    std::optional<WaitingThread> waiting;
    if (WaitingThread::MayLend()) waiting.emplace(is_answered);
    BEAMLINE_RETURN_IF_ERROR(ask(sink).status());
  }
  return sink->Wait();
}

}  // namespace

absl::StatusOr<GenerateResult> Engine::GenerateAndWait(GenerateRequest request) {
  return AskAndWait<GenerateSink, GenerateResult>(
      [&](auto& sink) { return Generate(std::move(request), sink); });
}

absl::StatusOr<EncodeResult> Engine::EncodeAndWait(EncodeRequest request) {
  return AskAndWait<EncodeSink, EncodeResult>(
      [&](auto& sink) { return Encode(std::move(request), sink); });
}

absl::StatusOr<EncodeResult> Engine::ClassifyAndWait(ClassifyRequest request) {
  return AskAndWait<EncodeSink, EncodeResult>(
      [&](auto& sink) { return Classify(std::move(request), sink); });
}

absl::StatusOr<EncodeResult> Engine::ClassifyTokensAndWait(ClassifyTokensRequest request) {
  return AskAndWait<EncodeSink, EncodeResult>(
      [&](auto& sink) { return ClassifyTokens(std::move(request), sink); });
}

absl::StatusOr<EncodeResult> Engine::FillMaskAndWait(FillMaskRequest request) {
  return AskAndWait<EncodeSink, EncodeResult>(
      [&](auto& sink) { return FillMask(std::move(request), sink); });
}

absl::StatusOr<ScoreResult> Engine::ScoreAndWait(ScoreRequest request) {
  return AskAndWait<ScoreSink, ScoreResult>(
      [&](auto& sink) { return Score(std::move(request), sink); });
}

absl::StatusOr<std::unique_ptr<Engine>> Engine::Create(const EngineOptions& options,
                                                       EngineObserver* observer) {
  if (options.models.empty()) return absl::InvalidArgumentError("no model to serve");
  BEAMLINE_RETURN_IF_ERROR(
      CheckInt("num_threads", options.num_threads, 0, EngineOptions::kMostThreads));
  BEAMLINE_RETURN_IF_ERROR(CheckInt("num_tokenizer_threads", options.num_tokenizer_threads, 1,
                                    EngineOptions::kMostTokenizerThreads));
  BEAMLINE_RETURN_IF_ERROR(CheckGpuMemoryLimit(options.gpu_memory));
  auto engine = std::make_unique<EngineImpl>(options, observer);
  BEAMLINE_RETURN_IF_ERROR(engine->LoadConfigured());
  return engine;
}

}  // namespace beamline
