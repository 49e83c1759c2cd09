// What the processes of a model must have in common before they compute it together.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/byte_message.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/step_limits.h"
#include "kernels/rank_links.h"
#include "kernels/tensor.h"

namespace beamline {

struct RankTerms {
  std::string build;        // of Beamline
  uint64_t checkpoint = 0;  // FingerprintOf
  DType dtype = DType::kFloat32;
  // The front's, which all take.
  StepLimits limits;
  int32_t max_model_len = 0;
};

RankTerms TermsOf(const Checkpoint& checkpoint, DType dtype, const StepLimits& limits);

// Of the configuration, of every tensor's name, type and shape, and of samples of its values.
uint64_t FingerprintOf(const Checkpoint& checkpoint);

// FAILED_PRECONDITION naming what a follower's own terms, those of the front aside, have otherwise.
absl::Status CheckSame(const RankTerms& of_front, const RankTerms& own, const std::string& folder);

// The front: tells the followers the terms. They then load their parts.
void OfferTerms(const RankTerms& terms, RankLinks& followers);
// Waits until all followers have loaded. FAILED_PRECONDITION naming the one that could not, and its
// reason; UNAVAILABLE when one is lost; ends once `stop` is set.
absl::Status AwaitFollowers(RankLinks& followers, const std::atomic<bool>* stop);

// A follower: waits for the next call, as long as that takes. The links' fault.
absl::Status TakeCall(RankLinks& front, std::string& call);
// The terms of the first call. INVALID_ARGUMENT of another one.
absl::StatusOr<RankTerms> ReadTerms(const std::string& call);
// OK: it has loaded.
void ReplyTerms(const absl::Status& status, RankLinks& front);

}  // namespace beamline
