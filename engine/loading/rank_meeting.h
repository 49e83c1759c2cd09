// How the processes that have a rank of a model each come to be connected for its computation, once
// every follower is connected with the front: by sockets on the CPU, by NCCL on GPUs.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "engine/api/engine.h"
#include "engine/loading/make_backend.h"
#include "engine/loading/rank_terms.h"
#include "engine/transformer/ranked_backend.h"
#include "kernels/rank_links.h"

namespace beamline {

// Where the processes of a model of so many ranks come together.
RankDoor DoorOf(const ProcessOptions& options, const ModelOptions& model);

// The device of this process's rank: one, as the model's setting names it; the CPU with all that
// `cpu` says. Errors as MakeBackend's.
absl::StatusOr<ChosenBackend> MakeProcessDevice(const ModelOptions& options,
                                                const ModelNeeds& needs, const CpuShare& cpu,
                                                const GpuMemoryLimit& memory);

// The front's rank on `device`. Tells the followers the terms and connects them. Errors as
// AwaitReplies' and as JoinCudaRanks'.
absl::StatusOr<std::unique_ptr<RankedBackend>> MeetFollowers(std::shared_ptr<RankLinks> followers,
                                                             const RankDoor& door,
                                                             const RankTerms& terms,
                                                             std::unique_ptr<Backend> device,
                                                             const std::atomic<bool>* stop);

// A follower's rank. `make_device` gets the front's terms and makes the device of this process, or
// an error with which the front ends too. The links' fault when the front has gone.
absl::StatusOr<std::unique_ptr<RankedBackend>> MeetFront(
    std::shared_ptr<RankLinks> front, const RankDoor& door,
    absl::FunctionRef<absl::StatusOr<std::unique_ptr<Backend>>(const RankTerms& terms)>
        make_device);

}  // namespace beamline
