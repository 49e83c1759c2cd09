// What a request's tokens are charged to, such as the quota of the client that sends it. Who asks
// keeps the account; the engine says how many tokens a request takes as soon as it knows them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace beamline {

// Thread safe. Several requests may share one, as the parts of a call.
class TokenCharge {
 public:
  virtual ~TokenCharge() = default;
  // Before a long text is tokenized: RESOURCE_EXHAUSTED, as of Take, when not one token may be
  // taken.
  virtual absl::Status Check() = 0;
  // The most tokens that a request may come to use: of its inputs, and those that it may generate.
  // RESOURCE_EXHAUSTED with kRefusedByQuota and kRetryAfterPayload (engine/api/engine.h); nothing
  // is taken then.
  virtual absl::Status Take(int64_t tokens) = 0;
  // A request that has taken so many tokens is over, and has used `used` of them; the rest is given
  // back.
  virtual void Settle(int64_t taken, int64_t used) = 0;
};

}  // namespace beamline
