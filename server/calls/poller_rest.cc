#include "server/calls/poller_rest.h"

#include <pthread.h>

#include <array>
#include <string_view>
#include <thread>

namespace beamline {
namespace {

// By the name that gRPC gives them. A version that calls back elsewhere, perhaps with something
// held, has no such threads, and nothing rests.
bool IsPoller() {
  std::array<char, 16> name = {};
  return pthread_getname_np(pthread_self(), name.data(), name.size()) == 0 &&
         std::string_view(name.data()) == "nexting_thread";
}

}  // namespace

void PollerRest::AfterRefusal(Clock::time_point now) {
  if (!IsPoller() || !Begin(now)) return;
  std::this_thread::sleep_for(kRest);
  End();
}

}  // namespace beamline
