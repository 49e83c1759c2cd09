// Batches that a client may make of its users' requests.
#pragma once

#include <cstddef>
#include <string_view>

#include "absl/status/statusor.h"

namespace beamline::loadtest {

// Requests arrive as they do without it and wait in the generator, not in the server: up to `size`
// of those that have arrived are sent together once every request of the batch before has ended.
// What a service with static batches, or with one request at a time, does to its users.
struct Batching {
  size_t size = 0;  // 0: none, every request is sent when it arrives

  bool operator==(const Batching&) const = default;
};

// "none", "static:N" (N of 1 .. 10,000) or "serial", which is static:1. INVALID_ARGUMENT otherwise.
absl::StatusOr<Batching> ParseBatching(std::string_view text);

}  // namespace beamline::loadtest
