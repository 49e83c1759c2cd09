// The bytes of bodies that a listener holds, of all connections together and of each client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "absl/container/flat_hash_map.h"

namespace beamline {

// Thread safe.
class BodyBudget {
 public:
  explicit BodyBudget(size_t limit) : limit_(limit) {}

  enum class Refusal : uint8_t {
    kNone,
    kAll,     // there would be more than the limit
    kClient,  // the client has other bodies, and would have more than half of the limit
  };
  // For `bytes` more of a body that has `before` already. Anything but kNone, and nothing is taken.
  Refusal Take(const std::string& client, size_t before, size_t bytes);
  void Give(const std::string& client, size_t bytes);

  size_t limit() const { return limit_; }

 private:
  const size_t limit_;
  std::mutex mutex_;  // guards all below
  size_t bytes_ = 0;
  absl::flat_hash_map<std::string, size_t> clients_;  // those that have any
};

}  // namespace beamline
