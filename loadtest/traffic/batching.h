// Simulates clients that batch their users' requests.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"

namespace beamline::loadtest {

// Requests arrive as without batching, but wait in the generator instead of the server. When every
// request of the last batch has ended, up to `size` of the waiting ones are sent together. This
// models a service with static batches or one request at a time.
struct Batching {
  size_t size = 0;  // 0: no batching, requests are sent when they arrive

  bool operator==(const Batching&) const = default;
};

// "none", "static:N" (N of 1 .. 10,000) or "serial", which is static:1. INVALID_ARGUMENT otherwise.
absl::StatusOr<Batching> ParseBatching(std::string_view text);

}  // namespace beamline::loadtest
