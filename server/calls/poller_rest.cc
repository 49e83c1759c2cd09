#include "server/calls/poller_rest.h"

#include <thread>

#include "base/lent_thread.h"
#include "server/accept/kept_answers.h"
#include "server/accept/poll_turns.h"
#include "server/accept/read_pacing.h"

namespace beamline {

bool PollerRest::PaceAfterRefusal(Clock::time_point now) {
  if (!IsCallbackPoller()) return false;
  const Pace pace = Count(now);
  if (pace == Pace::kRare) return false;
  pace == Pace::kRapid ? PaceReads(now) : HurryReads(now);
  return true;
}

void PollerRest::AfterRefusal(Clock::time_point now) {
  if (!PaceAfterRefusal(now)) return;
  // It is on its way to what it has woken nobody for (server/accept/kick_sparing.h), or is to send.
  if (LentThread::HasWorked() || KeepsAnswers() || !Begin()) return;
  EndLonePolling();
  std::this_thread::sleep_for(kRest);
  End();
}

}  // namespace beamline
