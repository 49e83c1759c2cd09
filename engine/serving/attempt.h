// Whether a request whose replica has ended under it is begun again at another one. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "engine/api/engine.h"
#include "engine/api/request.h"
#include "engine/scheduling/job.h"

namespace beamline {

class Attempt {
 public:
  enum class Next : uint8_t { kAnswer, kRunAgain };

  explicit Attempt(std::optional<Clock::time_point> deadline) : deadline_(deadline) {}

  // Some of the answer has left.
  void HandOut() { handed_out_ = true; }
  // kRunAgain at most once, and only of what nobody has seen anything of. kAnswer: `error` is the
  // answer now, another one when the request has come to its end meanwhile.
  Next OnError(absl::Status& error, bool cancelled, Clock::time_point now) {
    if (!error.GetPayload(kReplicaEndedPayload).has_value()) return Next::kAnswer;
    if (cancelled) {
      error = absl::CancelledError("cancelled by the client");
      return Next::kAnswer;
    }
    if (handed_out_ || again_) return Next::kAnswer;
    if (deadline_.has_value() && *deadline_ <= now) {
      error = OverdueError();
      return Next::kAnswer;
    }
    again_ = true;
    return Next::kRunAgain;
  }

 private:
  const std::optional<Clock::time_point> deadline_;
  bool handed_out_ = false;
  bool again_ = false;
};

}  // namespace beamline
