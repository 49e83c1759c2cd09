#include "bench/engine/bench_run.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <span>
#include <sstream>
#include <utility>

#include "base/file.h"
#include "base/json.h"
#include "base/status.h"

namespace beamline {
namespace {

// A sink that fulfils a promise.
template <typename Sink, typename Result>
class PromiseSink : public Sink {
 public:
  void OnFinish(absl::StatusOr<Result> result) override { promise_.set_value(std::move(result)); }
  std::future<absl::StatusOr<Result>> future() { return promise_.get_future(); }

 private:
  std::promise<absl::StatusOr<Result>> promise_;
};

GenerateRequest MakeGenerate(const BenchTask& task, const BenchInput& input) {
  GenerateRequest request;
  request.model = task.model;
  request.prompt = input.ids;
  request.limits.max_new_tokens = input.max_new_tokens;
  request.limits.ignore_eos = task.ignore_eos;
  request.decoding = GreedyOptions();
  if (task.beam_width > 1) request.decoding = BeamOptions{.width = task.beam_width};
  return request;
}

// Submits the inputs together and waits for all results.
absl::Status RunGenerate(Engine& engine, const BenchTask& task, std::span<const BenchInput> inputs,
                         BenchOutcome& outcome) {
  std::vector<std::future<absl::StatusOr<GenerateResult>>> answers;
  const auto start = std::chrono::steady_clock::now();
  for (const BenchInput& input : inputs) {
    auto sink = std::make_shared<PromiseSink<GenerateSink, GenerateResult>>();
    answers.push_back(sink->future());
    BEAMLINE_RETURN_IF_ERROR(engine.Generate(MakeGenerate(task, input), sink).status());
  }
  outcome.submit_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (auto& answer : answers) {
    BEAMLINE_ASSIGN_OR_RETURN(const GenerateResult result, answer.get());
    outcome.tokens += static_cast<int64_t>(result.sequences[0].ids.size());
    if (task.keep_outputs) outcome.outputs.push_back(result.sequences[0].ids);
  }
  return absl::OkStatus();
}

// Counts the free slots of concurrent requests, and keeps the first error.
class Places {
 public:
  explicit Places(int count) : free_(count) {}

  void Take() {
    std::unique_lock lock(mutex_);
    freed_.wait(lock, [&] { return free_ > 0; });
    --free_;
  }
  void Leave(absl::Status status) {
    const std::lock_guard lock(mutex_);
    status_.Update(std::move(status));
    ++free_;
    freed_.notify_one();
  }
  absl::Status status() {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable freed_;
  int free_;
  absl::Status status_;
};

class PlaceSink final : public GenerateSink {
 public:
  explicit PlaceSink(Places& places) : places_(places) {}
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    if (result.ok()) ids_ = std::move(result->sequences[0].ids);
    places_.Leave(result.status());
  }
  const TokenIds& ids() const { return ids_; }

 private:
  Places& places_;
  TokenIds ids_;
};

// Keeps task.batch requests in flight until all inputs are answered.
absl::Status RunRefilled(Engine& engine, const BenchTask& task, std::span<const BenchInput> inputs,
                         BenchOutcome& outcome) {
  Places places(task.batch);
  std::vector<std::shared_ptr<PlaceSink>> answers;
  for (const BenchInput& input : inputs) {
    places.Take();
    answers.push_back(std::make_shared<PlaceSink>(places));
    const absl::Status begun = engine.Generate(MakeGenerate(task, input), answers.back()).status();
    if (!begun.ok()) places.Leave(begun);
  }
  for (int i = 0; i < task.batch; ++i) places.Take();
  BEAMLINE_RETURN_IF_ERROR(places.status());
  for (const auto& answer : answers) {
    outcome.tokens += static_cast<int64_t>(answer->ids().size());
    if (task.keep_outputs) outcome.outputs.push_back(answer->ids());
  }
  return absl::OkStatus();
}

// Scores all ids of an input except the first, so that a forward pass computes the logits of all
// its tokens.
absl::Status RunScore(Engine& engine, const BenchTask& task, std::span<const BenchInput> inputs,
                      BenchOutcome& outcome) {
  std::vector<std::future<absl::StatusOr<ScoreResult>>> answers;
  for (const BenchInput& input : inputs) {
    if (input.ids.size() < 2)
      return absl::InvalidArgumentError("scoring takes inputs of two ids and more");
    ScoreRequest request;
    request.model = task.model;
    request.prompt = TokenIds{input.ids[0]};
    request.continuations.emplace_back(TokenIds(input.ids.begin() + 1, input.ids.end()));
    auto sink = std::make_shared<PromiseSink<ScoreSink, ScoreResult>>();
    answers.push_back(sink->future());
    BEAMLINE_RETURN_IF_ERROR(engine.Score(std::move(request), sink).status());
  }
  for (auto& answer : answers) {
    BEAMLINE_ASSIGN_OR_RETURN(const ScoreResult result, answer.get());
    outcome.tokens += result.scores[0].num_tokens;
    if (task.keep_outputs) outcome.outputs.push_back(result.scores[0].logprob);
  }
  return absl::OkStatus();
}

absl::Status RunEncode(Engine& engine, const BenchTask& task, std::span<const BenchInput> inputs,
                       BenchOutcome& outcome) {
  EncodeRequest request;
  request.model = task.model;
  for (const BenchInput& input : inputs) {
    request.inputs.emplace_back(input.ids);
    outcome.tokens += static_cast<int64_t>(input.ids.size());
  }
  BEAMLINE_ASSIGN_OR_RETURN(const EncodeResult result, engine.EncodeAndWait(std::move(request)));
  if (task.keep_outputs) {
    for (const Embedding& embedding : result.embeddings)
      outcome.outputs.push_back(embedding.values);
  }
  return absl::OkStatus();
}

constexpr size_t kMaxFileBytes = size_t{1} << 30;

bool IsInt32(const nlohmann::json& value) {
  return WholeNumber(value, INT32_MIN, INT32_MAX).has_value();
}

bool IsIds(const nlohmann::json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), IsInt32);
}

}  // namespace

absl::StatusOr<std::vector<BenchInput>> ReadBenchInputs(const std::string& path,
                                                        int32_t max_new_tokens) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadFile("--input", path, kMaxFileBytes));
  std::istringstream lines(text);
  std::vector<BenchInput> inputs;
  for (std::string line; std::getline(lines, line);) {
    BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json row, ParseJson(line, "--input " + path));
    const bool has_fields = row.is_object() && row.contains("ids");
    const nlohmann::json& ids = has_fields ? row["ids"] : row;
    if (!IsIds(ids)) {
      return absl::InvalidArgumentError("--input " + path + ": a line has no array of ids");
    }
    BenchInput& input = inputs.emplace_back();
    input.ids = ids.get<TokenIds>();
    input.max_new_tokens = max_new_tokens;
    if (has_fields && row.contains("max_new_tokens")) {
      if (!IsInt32(row["max_new_tokens"])) {
        return absl::InvalidArgumentError("--input " + path +
                                          ": max_new_tokens is no whole number");
      }
      input.max_new_tokens = row["max_new_tokens"].get<int32_t>();
    }
  }
  if (inputs.empty()) return absl::InvalidArgumentError("--input " + path + ": no inputs");
  return inputs;
}

absl::StatusOr<BenchOutcome> RunBench(Engine& engine, const BenchTask& task,
                                      const std::vector<BenchInput>& inputs) {
  BenchOutcome outcome;
  const auto start = std::chrono::steady_clock::now();
  const bool refill = task.refill && task.kind == BenchTask::Kind::kGenerate;
  const auto size = refill ? inputs.size() : static_cast<size_t>(task.batch);
  for (size_t begin = 0; begin < inputs.size(); begin += size) {
    const auto batch = std::span(inputs).subspan(begin, std::min(size, inputs.size() - begin));
    const auto run = task.kind == BenchTask::Kind::kEncode  ? RunEncode
                     : task.kind == BenchTask::Kind::kScore ? RunScore
                     : refill                               ? RunRefilled
                                                            : RunGenerate;
    BEAMLINE_RETURN_IF_ERROR(run(engine, task, batch, outcome));
  }
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

}  // namespace beamline
