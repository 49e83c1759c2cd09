#include "engine/api/follower.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "engine/loading/model_options_check.h"
#include "engine/loading/model_precision.h"
#include "engine/loading/placement.h"
#include "engine/loading/rank_meeting.h"
#include "engine/models/models.h"
#include "engine/runahead/make_device_steps.h"
#include "engine/runahead/step_call.h"
#include "engine/transformer/rank_call.h"
#include "engine/transformer/ranked_transformer.h"
#include "engine/transformer/shard.h"
#include "engine/transformer/stage.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// A rank of a model, and what it has of it.
class Follower {
 public:
  Follower(const ModelOptions& model, const EngineOptions& options,
           std::shared_ptr<RankLinks> links)
      : model_(model), options_(options), links_(std::move(links)) {}

  // With the rest of the model's ranks, as the front tells.
  absl::Status Load(const RankDoor& door) {
    BEAMLINE_ASSIGN_OR_RETURN(backend_, MeetFront(links_, door, [this](const RankTerms& terms) {
                                return MakeDevice(terms);
                              }));
    std::string call;
    BEAMLINE_RETURN_IF_ERROR(TakeCall(*links_, call));
    const absl::Status loaded = LoadPart(call);
    Reply(loaded, *links_);
    return loaded;
  }

  // Until the fault, which it returns.
  absl::Status Compute() {
    std::string call;
    absl::Status fault;
    while (fault.ok()) {
      fault = TakeCall(*links_, call);
      if (fault.ok()) fault = Compute(call);
      if (fault.ok()) fault = backend_->ranks().status();
    }
    backend_->ranks().Fail(fault);  // what is under way ends
    return fault;
  }

  // After a fault: whether its device goes on working, or the device's own fault.
  absl::Status DeviceStatus() { return backend_->ranks().backend(0).Synchronize(); }

 private:
  // Once it is seen that both have the same model.
  absl::StatusOr<std::unique_ptr<Backend>> MakeDevice(const RankTerms& terms) {
    BEAMLINE_ASSIGN_OR_RETURN(const CheckpointPath folder,
                              CheckpointPath::Beneath(model_.folder_root, model_.folder));
    BEAMLINE_ASSIGN_OR_RETURN(checkpoint_, Checkpoint::Open(folder, CheckFamily));
    BEAMLINE_ASSIGN_OR_RETURN(const ModelDescription description,
                              DescribeModel(*checkpoint_, terms.max_model_len));
    spec_ = description.spec;
    RankTerms own = TermsOf(*checkpoint_, model_, terms.on_gpu);
    BEAMLINE_RETURN_IF_ERROR(CheckSame(terms, own, model_.folder));
    BEAMLINE_RETURN_IF_ERROR(CheckDivides(spec_, model_.tensor_parallel));
    BEAMLINE_RETURN_IF_ERROR(CheckStages(spec_, model_.pipeline_parallel));
    types_ = TypesOf(model_, *checkpoint_, terms.on_gpu);
    const ModelNeeds needs = {types_.precision, spec_.max_head_dim(), spec_.max_hidden_size()};
    BEAMLINE_ASSIGN_OR_RETURN(
        ChosenBackend chosen,
        MakeProcessDevice(model_, needs, {.num_threads = options_.num_threads},
                          options_.gpu_memory));
    own.on_gpu = chosen.is_gpu;
    BEAMLINE_RETURN_IF_ERROR(CheckSame(terms, own, model_.folder));
    return std::move(chosen.backend);
  }

  absl::Status LoadPart(const std::string& call) {
    ByteReader message(call);
    RankCall what = RankCall::kStep;
    StepLimits limits;
    message(what, limits);
    if (what != RankCall::kLoad || !message.done()) {
      return absl::InvalidArgumentError("the front sent another call than that to load");
    }
    BEAMLINE_ASSIGN_OR_RETURN(transformer_, RankedTransformer::Create(spec_, *checkpoint_, types_,
                                                                      limits, backend_->ranks()));
    checkpoint_.reset();
    steps_ = MakeDeviceSteps(*transformer_, *backend_);
    calls_.resize(steps_.size());
    return absl::OkStatus();
  }

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

  // Goes on to the next call while the device computes this one: a step is waited for when its
  // number comes again.
  absl::Status ComputeStep(ByteReader& message) {
    BEAMLINE_ASSIGN_OR_RETURN(auto read, StepCall::Read(message));
    const auto number = static_cast<size_t>(read->number());
    // The words of the step before, as this rank has them.
    const bool fits = number < steps_.size() && (!read->has_words() || steps_.size() == 2);
    if (!fits) return absl::InvalidArgumentError("the front sent a step that is none");
    DeviceStep& step = *steps_[number];
    std::unique_ptr<StepCall>& call = calls_[number];
    if (call != nullptr) BEAMLINE_RETURN_IF_ERROR(step.Wait());
    call = std::move(read);
    DeviceEdits edits = call->edits();
    if (call->has_words()) edits.words = steps_[1 - number]->words();
    return step.Start(call->built(), edits, call->requests(), call->searches());
  }

  const ModelOptions& model_;
  const EngineOptions& options_;
  const std::shared_ptr<RankLinks> links_;
  std::unique_ptr<Checkpoint> checkpoint_;  // until the weights are read
  TransformerSpec spec_;
  ModelTypes types_ = DType::kFloat32;
  std::unique_ptr<RankedBackend> backend_;
  std::unique_ptr<RankedTransformer> transformer_;
  std::vector<std::unique_ptr<StepCall>> calls_;  // of each step, what it was started with last
  std::vector<std::unique_ptr<DeviceStep>> steps_;
};

// OK when the front has ended, or has been lost.
absl::Status FollowFront(const ModelOptions& model, const EngineOptions& options,
                         const RankDoor& door, std::shared_ptr<RankLinks> links,
                         const std::function<void(const std::string& line)>& log) {
  const auto ended = [&] {
    log(fmt::format("model '{}': rank {} has no front any more: {}", model.name, links->rank(),
                    std::string(links->fault().message())));
    return absl::OkStatus();
  };
  Follower follower(model, options, links);
  if (const absl::Status loaded = follower.Load(door); !loaded.ok()) {
    return !links->fault().ok() ? ended() : loaded;
  }
  log(fmt::format("model '{}': rank {} of {} computes for the {}", model.name, links->rank(),
                  links->size(), links->NameOf(0)));
  absl::Status fault = follower.Compute();
  const absl::Status of_device = follower.DeviceStatus();
  // Of a device that has failed nothing is left to another front.
  if (!links->fault().ok() && of_device.ok()) return ended();
  fault = WithDeviceFault(fault, of_device);
  const std::string why = fmt::format("rank {}: {}", links->rank(), std::string(fault.message()));
  links->Fail(absl::UnavailableError(why));
  return fault;
}

}  // namespace

absl::Status FollowFronts(const EngineOptions& options,
                          const std::function<void(const std::string& line)>& log) {
  const auto is_divided = [](const ModelOptions& model) { return model.num_ranks() > 1; };
  const auto model = std::ranges::find_if(options.models, is_divided);
  BEAMLINE_CHECK(model != options.models.end() && options.processes.rank > 0);
  BEAMLINE_RETURN_IF_ERROR(CheckModelOptions(*model));
  BEAMLINE_ASSIGN_OR_RETURN(const ReplicaPlacement placement,
                            PlaceProcess(*model, options.num_threads));
  const ModelOptions here = OptionsThere(*model, placement);
  const RankDoor door = DoorOf(options.processes, here);
  while (true) {
    log(fmt::format("model '{}': rank {} waits for the front at {}:{}", model->name,
                    options.processes.rank, door.host, door.port));
    BEAMLINE_ASSIGN_OR_RETURN(auto links, RankLinks::Join(door, options.processes.rank));
    BEAMLINE_RETURN_IF_ERROR(FollowFront(here, options, door, std::move(links), log));
  }
}

}  // namespace beamline
