// An account that a request's tokens are charged to, such as a client's quota. The caller keeps the
// account; the engine reports the request's tokens as soon as it knows them.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace beamline {

// Thread safe. Several requests may share one, for example the parts of a call.
class TokenCharge {
 public:
  virtual ~TokenCharge() = default;
  // Called before a long text is tokenized. RESOURCE_EXHAUSTED, as in Take, when the account has
  // not even one token.
  virtual absl::Status Check() = 0;
  // Charges the most tokens that a request may use: its inputs plus what it may generate. On
  // RESOURCE_EXHAUSTED, with kRefusedByQuota and kRetryAfterPayload (engine/api/engine.h), nothing
  // is charged.
  virtual absl::Status Take(int64_t tokens) = 0;
  // The request that took `taken` tokens has ended and has used `used` of them; the rest is
  // refunded.
  virtual void Settle(int64_t taken, int64_t used) = 0;
};

}  // namespace beamline
