// The bytes of bodies that a listener holds, of all connections together and of each client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "base/shared_limit.h"

namespace beamline {

// Thread safe.
class BodyBudget {
 public:
  explicit BodyBudget(size_t limit) : limit_(limit) {}

  enum class Refusal : uint8_t {
    kNone,
    kAll,     // there would be more than the limit, or too little left for others (SharedLimit)
    kClient,  // the client has other bodies, and would have more than half of the limit
  };
  // For `bytes` more of a body that has `before` already. Anything but kNone, and nothing is taken.
  // A body that is alone may have all of the limit.
  Refusal Take(const std::string& client, size_t before, size_t bytes);
  void Give(const std::string& client, size_t bytes);

  size_t limit() const { return limit_; }

 private:
  const size_t limit_;
  std::mutex mutex_;
  ClientCounts bytes_;  // guarded by mutex_
};

}  // namespace beamline
