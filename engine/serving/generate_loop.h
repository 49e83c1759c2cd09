// The step loop of a model that generates: receive, launch a step, and land it: read its results
// and let the groups advance. When a step lands is the pipeline's business (engine/runahead): the
// next one is launched first where it can be. Where the device is the host itself (the CPU), a step
// that is done lands before the next one is planned: another device that is done waits for its next
// step.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "engine/runahead/pipeline.h"
#include "engine/scheduling/group.h"
#include "engine/scheduling/piece_size.h"
#include "engine/scheduling/running_width.h"
#include "engine/scheduling/scheduler.h"
#include "engine/serving/decode_threads.h"
#include "engine/serving/step_loop.h"

namespace beamline {

// Groups have a decoder with one row of at least one token.
class GenerateLoop : public StepLoop<Group> {
 public:
  // With `share_prefixes`, requests share the cached beginnings of their prompts.
  // max_gap: how long running sequences may wait for a step that has prompts in it; 0: unbounded.
  GenerateLoop(const StepLimits& limits, bool share_prefixes, std::chrono::milliseconds max_gap,
               const LoopContext& context);

  // Runs until the inbox is closed; groups still there get CANCELLED. When the device fails, closes
  // the inbox; they get the fault then.
  void Run();

 private:
  // As many sequences may run. Says what to expect of them.
  void SetWidth(int32_t width);
  void Launch(Clock::time_point now);
  void Land();
  // A group's own part of its advance, beside others'; nullopt: NaN or infinity.
  static std::optional<std::span<const Continuation>> Decode(Group& group,
                                                             std::span<const RowResult> results);
  void Advance(Group& group, const Pipeline::Progress& progress);
  void CountStep();
  void FailStep(const absl::Status& error);
  void RemoveFinished();
  // Requests of one Receive: while so many come, who brings them needs the allocator that freeing
  // would hold.
  static constexpr size_t kBurst = 8;

  // Frees groups that have ended while nothing waits for this thread.
  void FreeEnded();

  const int32_t max_sequences_;
  const bool frees_later_;  // a device computes meanwhile, and says when it is done
  RunningWidth width_;
  PieceSize piece_;
  Scheduler scheduler_;
  DecodeThreads decode_threads_;
  Pipeline pipeline_;
};

}  // namespace beamline
