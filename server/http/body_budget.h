// Limits the bytes of request bodies that a listener holds, in total and per client.
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
    kAll,     // the total would exceed the limit or the reserve for other clients (SharedLimit)
    kClient,  // the client has other bodies, and would exceed half of the limit
  };
  // Takes `bytes` more for a body that has `before` already. Takes nothing unless it returns kNone.
  // If there is no other body, a body may have all of the limit.
  Refusal Take(const std::string& client, size_t before, size_t bytes);
  void Give(const std::string& client, size_t bytes);

  size_t limit() const { return limit_; }

 private:
  const size_t limit_;
  std::mutex mutex_;
  ClientCounts bytes_;  // guarded by mutex_
};

}  // namespace beamline
