// Calls that come in a burst: gRPC reads what a connection has brought, often several calls, and
// queues all of them before the server's code gets the first. What they leave to the thread that
// brings them (base/lent_thread.h), a step of a model, is done once for all, behind the last one.
#pragma once

#include <grpc/grpc.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/lent_thread.h"
#include "base/semaphore.h"

namespace beamline {

// gRPC tells nobody how many calls it has queued. So the first one that leaves something puts a
// marker into the queue, which comes to its end when those before it have been taken in. One of a
// server's; any thread.
class CallBurst {
 public:
  // So many calls later at the latest what the first has left is done.
  static constexpr int64_t kMostCalls = 64;

  CallBurst();
  // Waits for a marker that is on its way. REQUIRES: no call comes any more; not on one of gRPC's
  // threads.
  ~CallBurst();
  CallBurst(const CallBurst&) = delete;
  CallBurst& operator=(const CallBurst&) = delete;

  // Of one call, on the stack of the thread that brings it, beside its LentThread and made before
  // it.
  class Call final : public LentThread::Later {
   public:
    // `burst` may be null: everything is done at once. `call`: its queue is that of all calls; it
    // lasts as long as this.
    Call(CallBurst* burst, grpc_call* call) : burst_(burst), call_(call) {}
    // The call is taken in. Does what is left of a burst that has become long.
    ~Call() {
      if (burst_ != nullptr) burst_->TakeIn();
    }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    bool Take(LentThread::Work& work) override {
      return burst_ != nullptr && burst_->Keep(work, call_);
    }

   private:
    CallBurst* const burst_;
    grpc_call* const call_;
  };

 private:
  // What gRPC calls when the marker has come to the end of its queue.
  struct Marker : grpc_completion_queue_functor {
    CallBurst* burst;
  };

  // Markers that found no other call behind the first make the next ones rarer: for so many that
  // leave something none is sent.
  static constexpr int kMostUnmarked = 64;

  bool Keep(LentThread::Work& work, grpc_call* call);
  void TakeIn();
  // The marker is at the end of its queue, or was not taken.
  void End();

  Marker marker_;
  Semaphore returned_;                  // the marker, when the destructor waits for it
  std::atomic<int64_t> num_calls_ = 0;  // taken in since the marker was sent
  std::mutex mutex_;                    // guards all below
  std::vector<LentThread::Work> kept_;
  bool is_marked_ = false;  // the marker is on its way
  bool is_ending_ = false;
  int to_skip_ = 0;  // before a marker is sent again
  int skipped_ = 0;  // before the last one
};

}  // namespace beamline
