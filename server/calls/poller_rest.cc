#include "server/calls/poller_rest.h"

#include <pthread.h>

#include <array>
#include <string_view>
#include <thread>

#include "base/lent_thread.h"
#include "server/accept/kept_answers.h"
#include "server/accept/read_pacing.h"

namespace beamline {
namespace {

// By the name that gRPC gives them. A version that calls back elsewhere, perhaps with something
// held, has no such threads, and nothing rests.
bool IsPoller() {
  thread_local const bool is_poller = [] {
    std::array<char, 16> name = {};
    return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
           std::string_view(name.data()) == "nexting_thread";
  }();
  return is_poller;
}

}  // namespace

bool PollerRest::PaceAfterRefusal(Clock::time_point now) {
  if (!IsPoller()) return false;
  const Pace pace = Count(now);
  if (pace == Pace::kRare) return false;
  pace == Pace::kRapid ? PaceReads(now) : HurryReads(now);
  return true;
}

void PollerRest::AfterRefusal(Clock::time_point now) {
  if (!PaceAfterRefusal(now)) return;
  // It is on its way to what it has woken nobody for (server/accept/kick_sparing.h), or is to send.
  if (LentThread::HasWorked() || KeepsAnswers() || !Begin()) return;
  std::this_thread::sleep_for(kRest);
  End();
}

}  // namespace beamline
