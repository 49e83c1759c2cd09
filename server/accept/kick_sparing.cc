#include "server/accept/kick_sparing.h"

#include <dlfcn.h>
#include <grpcpp/version_info.h>

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "base/lent_thread.h"
#include "server/accept/grpc_types.h"

namespace beamline {
namespace {

std::atomic<bool> spares{false};
// What the thread polls, one of gRPC's that does nothing else. Null: nothing so far.
thread_local const void* polled = nullptr;

// Behind what it was left, too: gRPC sends an answer that was given within the service's method
// behind that, and the queue then gives out the ends of the call, each with a kick for the next.
bool ComesToIt(const void* pollset) {
  const bool is_on_its_way = LentThread::IsWorking() || LentThread::HasWorked();
  return pollset == polled && is_on_its_way && spares.load(std::memory_order_relaxed);
}

}  // namespace

void SpareKicks() { spares.store(true, std::memory_order_relaxed); }

}  // namespace beamline

// In place of gRPC's own, as those of send_joining.cc. The functions are of this version: others
// return something else.
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51
#define BEAMLINE_IN_PLACE __attribute__((visibility("default"), weak))
BEAMLINE_IN_PLACE absl::Status grpc_pollset_work(grpc_pollset* pollset,
                                                 grpc_pollset_worker** worker,
                                                 grpc_core::Timestamp deadline) {
  using Work = absl::Status (*)(grpc_pollset*, grpc_pollset_worker**, grpc_core::Timestamp);
  static const auto work = reinterpret_cast<Work>(
      dlsym(RTLD_NEXT,
            "_Z17grpc_pollset_workP12grpc_pollsetPP19grpc_pollset_workerN9grpc_core9TimestampE"));
  beamline::polled = pollset;
  beamline::LentThread::ForgetWork();
  return work(pollset, worker, deadline);
}

BEAMLINE_IN_PLACE absl::Status grpc_pollset_kick(grpc_pollset* pollset,
                                                 grpc_pollset_worker* worker) {
  using Kick = absl::Status (*)(grpc_pollset*, grpc_pollset_worker*);
  static const auto kick = reinterpret_cast<Kick>(
      dlsym(RTLD_NEXT, "_Z17grpc_pollset_kickP12grpc_pollsetP19grpc_pollset_worker"));
  if (worker == nullptr && beamline::ComesToIt(pollset)) return absl::OkStatus();
  return kick(pollset, worker);
}
#endif
