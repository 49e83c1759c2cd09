#include "engine/serving/rerank_gather.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace beamline {
namespace {

float ScoreOf(const ScoreResult& result, ScoreFunction function) {
  BEAMLINE_CHECK(result.scores.size() == 2);
  const double positive = result.scores[0].logprob, negative = result.scores[1].logprob;
  // Equal also where both are -infinity: of a model that can write neither.
  const double difference = positive == negative ? 0.0 : positive - negative;
  if (function == ScoreFunction::kNone) return static_cast<float>(difference);
  return static_cast<float>(1.0 / (1.0 + std::exp(-difference)));
}

// The first step of any, and the end of the last.
void Combine(const Timing& document, bool is_first, Timing& all) {
  if (is_first) {
    all = document;
    return;
  }
  all.queue = std::min(all.queue, document.queue);
  all.total = std::max(all.total, document.total);
}

}  // namespace

class RerankGather::DocumentSink final : public ScoreSink {
 public:
  DocumentSink(std::shared_ptr<RerankGather> gather, size_t document)
      : gather_(std::move(gather)), document_(document) {}
  void OnFinish(absl::StatusOr<ScoreResult> result) override {
    gather_->Take(document_, std::move(result));
  }

 private:
  const std::shared_ptr<RerankGather> gather_;
  const size_t document_;
};

RerankGather::RerankGather(size_t num_documents, ScoreFunction function,
                           std::shared_ptr<EncodeSink> sink)
    : function_(function), sink_(std::move(sink)), num_left_(num_documents) {
  result_.embeddings.resize(num_documents);
}

std::shared_ptr<ScoreSink> RerankGather::SinkOf(size_t document) {
  return std::make_shared<DocumentSink>(shared_from_this(), document);
}

void RerankGather::Add(std::shared_ptr<RequestHandle> job) {
  std::lock_guard lock(mutex_);
  if (cancelled_) return job->Cancel();
  jobs_.push_back(std::move(job));
}

bool RerankGather::Abandon() {
  bool is_silent = false;
  {
    std::lock_guard lock(mutex_);
    is_silent = std::exchange(sink_, nullptr) != nullptr;
  }
  Cancel();
  return is_silent;
}

void RerankGather::Cancel() {
  std::vector<std::shared_ptr<RequestHandle>> jobs;
  {
    std::lock_guard lock(mutex_);
    cancelled_ = true;
    jobs.swap(jobs_);
  }
  for (const auto& job : jobs) job->Cancel();
}

void RerankGather::Take(size_t document, absl::StatusOr<ScoreResult> result) {
  std::shared_ptr<EncodeSink> answered;
  {
    std::lock_guard lock(mutex_);
    if (sink_ == nullptr) return;
    if (result.ok()) {
      Embedding& embedding = result_.embeddings[document];
      embedding.values = {ScoreOf(*result, function_)};
      embedding.dimensions = 1;
      embedding.num_tokens = result->usage.prompt_tokens;
      result_.usage.prompt_tokens += result->usage.prompt_tokens;
      result_.usage.cached_tokens += result->usage.cached_tokens;
      Combine(result->timing, num_left_ == result_.embeddings.size(), result_.timing);
      if (--num_left_ > 0) return;
      jobs_.clear();
    }
    answered = std::move(sink_);
    sink_ = nullptr;
  }
  if (result.ok()) return answered->OnFinish(std::move(result_));
  Cancel();
  answered->OnFinish(result.status());
}

}  // namespace beamline
