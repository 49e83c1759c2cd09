// An engine whose requests do what the test says, for the server's own behaviour: writing,
// cancelling, draining, refusing. Long because it answers every kind of request.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "engine/api/engine.h"
#include "gtest/gtest.h"

namespace beamline {

// Of a request that never came.
class UnheardSink final : public GenerateSink {
 public:
  void OnFinish(absl::StatusOr<GenerateResult> result) override { static_cast<void>(result); }
};

// One accepted request: the test finishes it.
struct FakeRequest {
  GenerateRequest request;
  std::shared_ptr<GenerateSink> sink;
};

class FakeEngine final : public Engine {
 public:
  FakeEngine() {
    ModelInfo writer;
    writer.name = "writer";
    writer.architecture = "FakeLMHeadModel";
    writer.task = ModelTask::kGenerate;
    writer.vocab_size = 100;
    writer.block_size = 16;
    writer.device = "fake:0";
    writer.replicas = {{.device = "fake:0"}};
    writer.versioned_name = "writer@1";
    ModelInfo embedder = writer;
    embedder.name = "embedder";
    embedder.versioned_name = "embedder@1";
    embedder.task = ModelTask::kEncode;
    embedder.hidden_size = 256;
    embedder.embedding_dimensions = 2;
    embedder.max_input_tokens = 1024;
    models_ = {writer, embedder};
  }
  // As an engine's threads end before it, so does who answers for this one.
  ~FakeEngine() override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return finishing_ == 0; });
  }

  WorkerPool& text_workers() override { return text_workers_; }

  absl::StatusOr<std::shared_ptr<RequestHandle>> Generate(
      GenerateRequest request, std::shared_ptr<GenerateSink> sink) override {
    std::unique_lock lock(mutex_);
    if (!refusal_.ok()) return refusal_;
    if (draining_) return absl::UnavailableError("draining");
    if (answer_.has_value()) {
      GenerateResult answer = *answer_;
      lock.unlock();
      sink->OnFinish(std::move(answer));
      return std::make_shared<Handle>(*this);
    }
    requests_.push_back({std::move(request), std::move(sink)});
    changed_.notify_all();
    return std::make_shared<Handle>(*this);
  }

  absl::StatusOr<std::shared_ptr<RequestHandle>> Encode(EncodeRequest request,
                                                        std::shared_ptr<EncodeSink> sink) override {
    if (hold_encodes_) {
      if (request.on_answer_bytes) request.on_answer_bytes(held_answer_bytes_);
      std::lock_guard lock(mutex_);
      encodes_.push_back(std::move(sink));
      changed_.notify_all();
      return std::make_shared<Handle>(*this);
    }
    EncodeResult result;
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      result.embeddings.push_back({.num_vectors = 1,
                                   .dimensions = 2,
                                   .values = {static_cast<float>(i), 1.0f},
                                   .num_tokens = 1});
    }
    sink->OnFinish(std::move(result));  // before the call has its handle
    return std::make_shared<Handle>(*this);
  }

  // The scores of an input are its place, and what is as far below 0; of a query the place alone.
  absl::StatusOr<std::shared_ptr<RequestHandle>> Classify(
      ClassifyRequest request, std::shared_ptr<EncodeSink> sink) override {
    EncodeResult result;
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const auto place = static_cast<float>(i);
      std::vector<float> scores = {place};
      if (!request.query.has_value()) scores.push_back(-place);
      result.embeddings.push_back({.dimensions = static_cast<int32_t>(scores.size()),
                                   .values = std::move(scores),
                                   .num_tokens = 1});
    }
    sink->OnFinish(std::move(result));
    return std::make_shared<Handle>(*this);
  }

  // Every input is one token of its first byte, and its scores are as those of Classify.
  absl::StatusOr<std::shared_ptr<RequestHandle>> ClassifyTokens(
      ClassifyTokensRequest request, std::shared_ptr<EncodeSink> sink) override {
    EncodeResult result;
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      const auto place = static_cast<float>(i);
      result.embeddings.push_back({.dimensions = 2, .values = {place, -place}, .num_tokens = 1});
      result.tokens.push_back({{.id = 1, .begin = 0, .end = 1}});
    }
    sink->OnFinish(std::move(result));
    return std::make_shared<Handle>(*this);
  }

  // Every input is a mask, in whose place the token 1 is certain.
  absl::StatusOr<std::shared_ptr<RequestHandle>> FillMask(
      FillMaskRequest request, std::shared_ptr<EncodeSink> sink) override {
    EncodeResult result;
    for (const std::string& text : request.inputs) {
      result.embeddings.push_back({.num_tokens = 1});
      result.tokens.push_back({{.id = 0, .begin = 0, .end = static_cast<int32_t>(text.size())}});
      result.masks.push_back({{0, {{1, 1.0f}}}});
    }
    sink->OnFinish(std::move(result));
    return std::make_shared<Handle>(*this);
  }

  // The score of a continuation is minus its place.
  absl::StatusOr<std::shared_ptr<RequestHandle>> Score(ScoreRequest request,
                                                       std::shared_ptr<ScoreSink> sink) override {
    ScoreResult result;
    for (size_t i = 0; i < request.continuations.size(); ++i) {
      ContinuationScore score = {.logprob = -static_cast<double>(i), .num_tokens = 1};
      if (request.per_token) score.tokens = {{7, -static_cast<float>(i)}};
      result.scores.push_back(std::move(score));
    }
    sink->OnFinish(std::move(result));
    return std::make_shared<Handle>(*this);
  }

  absl::StatusOr<std::shared_ptr<const Tokenizer>> FindTokenizer(
      const std::string&) const override {
    return absl::NotFoundError("the fake engine has no tokenizers");
  }
  std::vector<ModelInfo> Models() const override {
    std::lock_guard lock(mutex_);
    return models_;
  }
  absl::StatusOr<ModelInfo> FindModel(const std::string&) const override { return Models()[0]; }
  absl::StatusOr<ModelStats> Stats(const std::string& model) const override {
    std::lock_guard lock(mutex_);
    ModelStats stats = stats_;
    stats.can_answer = model != broken_model_;
    stats.replicas.resize(1);  // as SetStats says, if it does
    ReplicaState& replica = stats.replicas[0];
    replica.device = "fake:0";
    replica.can_answer = stats.can_answer;
    replica.memory = stats.memory;
    replica.unused_device_bytes = stats.unused_device_bytes;
    return stats;
  }
  std::vector<ReplicaSnapshot> Snapshot(std::chrono::milliseconds) const override { return {}; }
  absl::StatusOr<ModelInfo> Load(const ModelOptions& options) override {
    std::unique_lock lock(mutex_);
    loads_.push_back(options);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !hold_loads_; });
    if (!load_error_.ok()) return load_error_;
    ModelInfo info = models_.empty() ? ModelInfo() : models_[0];
    info.name = options.name;
    info.version = options.version;
    info.versioned_name = options.name + "@" + std::to_string(options.version);
    info.state = ModelState::kReady;
    models_.push_back(info);
    const ModelListener listener = on_change_;
    lock.unlock();
    if (listener) listener(info);
    return info;
  }
  absl::StatusOr<ModelInfo> Unload(const std::string& name, int32_t version,
                                   std::chrono::milliseconds grace) override {
    std::unique_lock lock(mutex_);
    last_grace_ = grace;
    for (auto model = models_.begin(); model != models_.end(); ++model) {
      if (model->name != name || (version != 0 && model->version != version)) continue;
      ModelInfo info = *model;
      models_.erase(model);
      const ModelListener listener = on_change_;
      lock.unlock();
      info.state = ModelState::kUnloaded;
      if (listener) listener(info);
      info.state = ModelState::kReady;
      return info;
    }
    return absl::NotFoundError("model is '" + name + "'");
  }
  void OnModelChange(ModelListener listener) override {
    std::lock_guard lock(mutex_);
    on_change_ = std::move(listener);
  }
  absl::StatusOr<ModelInfo> RestartReplica(const std::string& name, int32_t version,
                                           int32_t replica,
                                           std::chrono::milliseconds grace) override {
    std::lock_guard lock(mutex_);
    restarts_.push_back({name, version, replica, grace});
    for (const ModelInfo& info : models_) {
      if (info.name == name) return info;
    }
    return absl::NotFoundError("model is '" + name + "'");
  }
  struct Restart {
    std::string name;
    int32_t version = 0;
    int32_t replica = 0;
    std::chrono::milliseconds grace{0};
    bool operator==(const Restart&) const = default;
  };
  std::vector<Restart> restarts() const {
    std::lock_guard lock(mutex_);
    return restarts_;
  }
  void OnReplicaChange(ReplicaListener listener) override {
    std::lock_guard lock(mutex_);
    on_replica_change_ = std::move(listener);
  }
  void Tell(const ReplicaChange& change) {
    ReplicaListener listener;
    {
      std::lock_guard lock(mutex_);
      listener = on_replica_change_;
    }
    listener(change);
  }
  void OnFault(FaultListener listener) override {
    std::lock_guard lock(mutex_);
    on_fault_ = std::move(listener);
  }

  bool Drain(std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    hold_loads_ = false;
    changed_.notify_all();
    return changed_.wait_for(lock, timeout, [this] { return finished_ == requests_.size(); });
  }

  // What every model answers from now on. Not while others ask.
  void SetStats(ModelStats stats) { stats_ = std::move(stats); }
  // The model's device fails.
  void Break(const std::string& model, const absl::Status& fault) {
    FaultListener listener;
    ModelInfo info;
    {
      std::lock_guard lock(mutex_);
      broken_model_ = model;
      listener = on_fault_;
      for (const ModelInfo& one : models_) {
        if (one.name == model) info = one;
      }
    }
    listener(info, fault);
  }
  // Later loads end with this.
  void FailLoads(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    load_error_ = status;
  }
  // Whether loads wait.
  void HoldLoads(bool hold) {
    std::lock_guard lock(mutex_);
    hold_loads_ = hold;
    changed_.notify_all();
  }
  // The first `count` that were asked for, once they are.
  std::vector<ModelOptions> WaitForLoads(size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return loads_.size() >= count; });
    return loads_;
  }
  std::chrono::milliseconds last_grace() {
    std::lock_guard lock(mutex_);
    return last_grace_;
  }
  // Later requests are refused with this.
  void Refuse(const absl::Status& status) {
    std::lock_guard lock(mutex_);
    refusal_ = status;
  }
  // Later requests get this answer at once, and are not kept.
  void AnswerAll(GenerateResult answer) {
    std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
  }
  // The request of this index, once it is there.
  FakeRequest WaitForRequest(size_t index) {
    std::unique_lock lock(mutex_);
    const bool there =
        changed_.wait_for(lock, std::chrono::seconds(20), [&] { return requests_.size() > index; });
    EXPECT_TRUE(there) << "request " << index << " did not come";
    return there ? requests_[index] : FakeRequest{{}, std::make_shared<UnheardSink>()};
  }
  size_t num_requests() {
    std::lock_guard lock(mutex_);
    return requests_.size();
  }
  // Encodes wait for FinishEncode from now on, and tell that their answers have so many bytes.
  // Before the first.
  void HoldEncodes(int64_t answer_bytes) {
    hold_encodes_ = true;
    held_answer_bytes_ = answer_bytes;
  }
  size_t num_encodes() {
    std::lock_guard lock(mutex_);
    return encodes_.size();
  }
  bool WaitForEncodes(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20),
                             [&] { return encodes_.size() >= count; });
  }
  // With one vector of the bytes told, whose values are `index`.
  void FinishEncode(size_t index) {
    std::shared_ptr<EncodeSink> sink;
    {
      std::lock_guard lock(mutex_);
      sink = encodes_.at(index);
      ++finishing_;
    }
    EncodeResult result;
    const auto size = static_cast<size_t>(held_answer_bytes_) / sizeof(float);
    result.embeddings.push_back({.dimensions = static_cast<int32_t>(size),
                                 .values = std::vector<float>(size, static_cast<float>(index)),
                                 .num_tokens = 1});
    sink->OnFinish(std::move(result));
    std::lock_guard lock(mutex_);
    --finishing_;
    changed_.notify_all();
  }
  bool WaitForCancels(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return cancels_ >= count; });
  }
  bool WaitForDrain() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(20), [&] { return draining_; });
  }
  void Finish(const FakeRequest& request, absl::StatusOr<GenerateResult> result) {
    {
      std::lock_guard lock(mutex_);
      ++finishing_;
    }
    request.sink->OnFinish(std::move(result));
    std::lock_guard lock(mutex_);
    --finishing_;
    ++finished_;
    changed_.notify_all();
  }

 private:
  class Handle final : public RequestHandle {
   public:
    explicit Handle(FakeEngine& engine) : engine_(engine) {}
    void Cancel() override {
      std::lock_guard lock(engine_.mutex_);
      ++engine_.cancels_;
      engine_.changed_.notify_all();
    }

   private:
    FakeEngine& engine_;
  };

  ModelStats stats_;
  mutable std::mutex mutex_;
  std::vector<ModelInfo> models_;  // guarded, as all below
  std::vector<ModelOptions> loads_;
  absl::Status load_error_;
  bool hold_loads_ = false;
  std::chrono::milliseconds last_grace_{-1};
  ModelListener on_change_;
  std::condition_variable changed_;
  std::vector<FakeRequest> requests_;
  std::vector<std::shared_ptr<EncodeSink>> encodes_;  // that are held
  std::atomic<bool> hold_encodes_ = false;
  std::atomic<int64_t> held_answer_bytes_ = 0;
  absl::Status refusal_;
  std::optional<GenerateResult> answer_;
  std::vector<Restart> restarts_;
  ReplicaListener on_replica_change_;
  FaultListener on_fault_;
  std::string broken_model_;
  size_t finished_ = 0;
  int finishing_ = 0;  // threads within Finish
  int cancels_ = 0;
  bool draining_ = false;
  WorkerPool text_workers_{1};  // last: what was posted ends before the rest
};

// A result of one sequence.
inline GenerateResult TextResult(std::string text, FinishReason reason = FinishReason::kEos) {
  GenerateResult result;
  GeneratedSequence sequence;
  sequence.text = std::move(text);
  sequence.finish_reason = reason;
  result.sequences.push_back(std::move(sequence));
  result.usage.generated_tokens = 1;
  result.timing.total = std::chrono::milliseconds(1);
  return result;
}

}  // namespace beamline
