// Which replica of a model gets the next request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace beamline {

struct ReplicaLoad {
  bool can_answer = true;
  int64_t num_unanswered = 0;  // requests that it has accepted
};

// The place of the one with the fewest unanswered requests, of those that can answer if there are
// any; of equals the first. REQUIRES: there is one.
inline size_t LeastLoaded(std::span<const ReplicaLoad> replicas) {
  size_t best = 0;
  for (size_t i = 1; i < replicas.size(); ++i) {
    const ReplicaLoad& it = replicas[i];
    const ReplicaLoad& other = replicas[best];
    if (it.can_answer == other.can_answer ? it.num_unanswered < other.num_unanswered
                                          : it.can_answer) {
      best = i;
    }
  }
  return best;
}

}  // namespace beamline
