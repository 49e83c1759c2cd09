#include "engine/api/follower.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "engine/loading/make_ranks.h"
#include "engine/loading/model_options_check.h"
#include "engine/loading/rank_terms.h"
#include "engine/models/models.h"
#include "engine/runahead/make_device_steps.h"
#include "engine/runahead/step_call.h"
#include "engine/transformer/rank_call.h"
#include "engine/transformer/ranked_transformer.h"
#include "engine/transformer/shard.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// A rank of a model, and what it has of it.
class Follower {
 public:
  Follower(const ModelOptions& model, const EngineOptions& options,
           std::shared_ptr<RankLinks> links)
      : model_(model), options_(options), links_(std::move(links)) {}

  absl::Status Load(const RankTerms& terms) {
    BEAMLINE_ASSIGN_OR_RETURN(const auto checkpoint, Checkpoint::Open(model_.folder, CheckFamily));
    BEAMLINE_ASSIGN_OR_RETURN(const ModelDescription description,
                              DescribeModel(*checkpoint, terms.max_model_len));
    BEAMLINE_RETURN_IF_ERROR(
        CheckSame(terms, TermsOf(*checkpoint, model_.dtype, terms.limits), model_.folder));
    BEAMLINE_RETURN_IF_ERROR(CheckDivides(description.spec, links_->size()));
    backend_ = MakeProcessRank(links_, {.num_threads = options_.num_threads});
    BEAMLINE_ASSIGN_OR_RETURN(transformer_,
                              RankedTransformer::Create(description.spec, *checkpoint, model_.dtype,
                                                        terms.limits, backend_->ranks()));
    steps_ = MakeDeviceSteps(*transformer_, *backend_);
    return absl::OkStatus();
  }

  // Until the fault, which it returns.
  absl::Status Compute() {
    std::string call;
    while (true) {
      BEAMLINE_RETURN_IF_ERROR(TakeCall(*links_, call));
      BEAMLINE_RETURN_IF_ERROR(Compute(call));
      BEAMLINE_RETURN_IF_ERROR(backend_->ranks().status());
    }
  }

 private:
  absl::Status Compute(const std::string& call) {
    ByteReader message(call);
    RankCall what = RankCall::kLoad;
    message(what);
    if (what == RankCall::kStep) return ComputeStep(message);
    EncoderBatch batch;
    VisitEncoderBatch(message, batch);
    if (what != RankCall::kEncode || !message.done()) {
      return absl::InvalidArgumentError("the front sent a call that is none");
    }
    transformer_->Encode(batch);
    return absl::OkStatus();
  }

  absl::Status ComputeStep(ByteReader& message) {
    BEAMLINE_ASSIGN_OR_RETURN(const auto call, StepCall::Read(message));
    const auto number = static_cast<size_t>(call->number());
    DeviceStep& step = *steps_[number];
    DeviceEdits edits = call->edits();
    // The words of the step before, as this rank has them.
    if (call->has_words()) edits.words = steps_[1 - number]->words();
    BEAMLINE_RETURN_IF_ERROR(step.Start(call->built(), edits, call->requests(), call->searches()));
    return step.Wait();
  }

  const ModelOptions& model_;
  const EngineOptions& options_;
  const std::shared_ptr<RankLinks> links_;
  std::unique_ptr<RankedBackend> backend_;
  std::unique_ptr<RankedTransformer> transformer_;
  std::vector<std::unique_ptr<DeviceStep>> steps_;
};

// OK when the front has ended, or has been lost.
absl::Status FollowFront(const ModelOptions& model, const EngineOptions& options,
                         std::shared_ptr<RankLinks> links,
                         const std::function<void(const std::string& line)>& log) {
  const auto ended = [&] {
    log(fmt::format("model '{}': rank {} has no front any more: {}", model.name, links->rank(),
                    std::string(links->fault().message())));
    return absl::OkStatus();
  };
  std::string call;
  if (!TakeCall(*links, call).ok()) return ended();
  Follower follower(model, options, links);
  auto terms = ReadTerms(call);
  const absl::Status loaded = terms.ok() ? follower.Load(*terms) : terms.status();
  ReplyTerms(loaded, *links);
  BEAMLINE_RETURN_IF_ERROR(loaded);
  log(fmt::format("model '{}': rank {} of {} computes for the {}", model.name, links->rank(),
                  links->size(), links->NameOf(0)));
  const absl::Status fault = follower.Compute();
  if (!links->fault().ok()) return ended();
  const std::string why = fmt::format("rank {}: {}", links->rank(), std::string(fault.message()));
  links->Fail(absl::UnavailableError(why));
  return fault;
}

}  // namespace

absl::Status FollowFronts(const EngineOptions& options,
                          const std::function<void(const std::string& line)>& log) {
  const auto is_divided = [](const ModelOptions& model) { return model.tensor_parallel > 1; };
  const auto model = std::ranges::find_if(options.models, is_divided);
  BEAMLINE_CHECK(model != options.models.end() && options.processes.rank > 0);
  BEAMLINE_RETURN_IF_ERROR(CheckModelOptions(*model));
  BEAMLINE_RETURN_IF_ERROR(CheckProcesses(*model));
  while (true) {
    RankDoor door = DoorOf(options.processes, model->tensor_parallel);
    log(fmt::format("model '{}': rank {} waits for the front at {}:{}", model->name,
                    options.processes.rank, door.host, door.port));
    BEAMLINE_ASSIGN_OR_RETURN(auto links, RankLinks::Join(door, options.processes.rank));
    BEAMLINE_RETURN_IF_ERROR(FollowFront(*model, options, std::move(links), log));
  }
}

}  // namespace beamline
