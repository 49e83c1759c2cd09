// What the processes of a model must have in common before they compute it together, and what they
// say to each other of it.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_message.h"
#include "engine/api/model.h"
#include "engine/checkpoint/checkpoint.h"
#include "kernels/rank_links.h"
#include "kernels/tensor.h"

namespace beamline {

struct RankTerms {
  std::string build;        // of Beamline
  uint64_t checkpoint = 0;  // FingerprintOf
  DType dtype = DType::kFloat32;
  int32_t tensor_parallel = 1;
  int32_t pipeline_parallel = 1;
  bool on_gpu = false;
  int32_t max_model_len = 0;  // the front's, which all take
};

RankTerms TermsOf(const Checkpoint& checkpoint, const ModelOptions& options, bool on_gpu);

// Of the configuration, of every tensor's name, type and shape, and of samples of its values.
uint64_t FingerprintOf(const Checkpoint& checkpoint);

// FAILED_PRECONDITION naming what a follower's own terms have otherwise than the front's.
absl::Status CheckSame(const RankTerms& of_front, const RankTerms& own, const std::string& folder);

template <typename Message, typename Terms>
void VisitTerms(Message& message, Terms& terms) {
  message(terms.build, terms.checkpoint, terms.dtype, terms.tensor_parallel,
          terms.pipeline_parallel, terms.on_gpu, terms.max_model_len);
}

// What a follower says when it has done what it was called for.
struct RankReply {
  std::string fault;        // why it does not go on; empty: it does
  int64_t free_bytes = -1;  // of its device's memory; -1: as much as there is
  // Where it listens for others (engine/loading/rank_meeting.h).
  std::string host;
  int32_t share_port = 0, stage_port = 0;
};

// The front: waits until all followers have replied, in the order of their ranks. UNAVAILABLE when
// one is lost; FAILED_PRECONDITION naming the one that does not go on, and its reason; ends once
// `stop` is set.
absl::StatusOr<std::vector<RankReply>> AwaitReplies(RankLinks& followers,
                                                    const std::atomic<bool>* stop);

// A follower: waits for the next call, as long as that takes. The links' fault.
absl::Status TakeCall(RankLinks& front, std::string& call);
void Reply(const RankReply& reply, RankLinks& front);
// That it goes on, or why not.
void Reply(const absl::Status& status, RankLinks& front);

}  // namespace beamline
