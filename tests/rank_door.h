// Where the processes of a test's model come together.
#pragma once

#include <unistd.h>

#include <atomic>

#include "fmt/format.h"
#include "kernels/rank_links.h"

namespace beamline {

inline constexpr char kRankSecret[] = "a secret of the tests";

// An address that no other test has: each process its own of loopback.
inline RankDoor DoorFor(int size) {
  static std::atomic<int> next = 20000;
  const int id = getpid();
  return {.host = fmt::format("127.{}.{}.{}", 1 + id / 65536 % 200, id / 256 % 256, 1 + id % 254),
          .port = next++,
          .size = size,
          .secret = kRankSecret};
}

}  // namespace beamline
