#include "server/accept/kept_answers.h"

#include <dlfcn.h>
#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "base/lent_thread.h"
#include "base/send_batch.h"
#include "server/accept/poll_turns.h"

namespace beamline {
namespace {

// gpr_inf_past, which this library would need gRPC for.
constexpr gpr_timespec kPast = {std::numeric_limits<int64_t>::min(), 0, GPR_CLOCK_MONOTONIC};

struct Poller {
  bool comes_back = false;  // to the queue, when it has run what came out of it
  std::vector<absl::AnyInvocable<void()>> kept;

  // Spares the others' waking: the thread comes to the ends of these calls next.
  void Send() {
    LentThread::Work send = [answers = std::exchange(kept, {})]() mutable { RunJoined(answers); };
    LentThread::Do(send);
    LentThread::ForgetWork();  // it may rest at the next of these ends
  }
};

thread_local Poller poller;

}  // namespace

void KeepAnswer(absl::AnyInvocable<void()> answer) {
  if (!poller.comes_back) return answer();
  poller.kept.push_back(std::move(answer));
}

bool KeepsAnswers() { return !poller.kept.empty(); }

}  // namespace beamline

// In place of gRPC's own, as those of send_joining.cc. Its pollers call it for whatever comes next,
// and hold nothing meanwhile.
extern "C" __attribute__((visibility("default"), weak)) grpc_event grpc_completion_queue_next(
    grpc_completion_queue* queue, gpr_timespec deadline, void* reserved) {
  using Next = grpc_event (*)(grpc_completion_queue*, gpr_timespec, void*);
  static const auto next = reinterpret_cast<Next>(dlsym(RTLD_NEXT, "grpc_completion_queue_next"));
  beamline::Poller& poller = beamline::poller;
  poller.comes_back = true;
  const beamline::PollTurn turn(/*may_wait=*/poller.kept.empty());
  if (!poller.kept.empty()) {
    if (poller.kept.size() < beamline::kMostKeptAnswers) {
      // What is there already comes first.
      const grpc_event event = next(queue, beamline::kPast, reserved);
      if (event.type == GRPC_OP_COMPLETE) return event;
    }
    poller.Send();
  }
  return next(queue, deadline, reserved);
}
