// Which replica of a model gets a request: the one that holds the prompt's beginning in its cache,
// unless another would have begun sooner even so; else the better of two drawn at random. Pure: no
// clock, device or thread. docs/decisions/0012-pool.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace beamline {

// What a router knows of a replica.
struct ReplicaView {
  bool can_answer = true;
  int64_t tokens = 0;            // that its requests may still come to compute
  int64_t requests = 0;          // unanswered
  double seconds_per_token = 0;  // as its steps take; 0: it has computed none
};

// The first tokens of a prompt, by a hash of these and of whose they are.
struct Beginning {
  uint64_t hash = 0;
  int32_t tokens = 0;
};

// Of 1, 2, 4, 8, ... blocks, as far as the prompt has them; a prompt's last token is always
// computed. Requests of different salts begin alike nowhere.
std::vector<Beginning> BeginningsOf(absl::Span<const int32_t> prompt, std::string_view salt,
                                    int32_t block_size);

// Seconds until a request that comes now has had its turn, one for each replica. One that has
// computed nothing counts as the others do on average.
std::vector<double> ExpectedWaits(std::span<const ReplicaView> replicas);

// Not thread safe.
class Router {
 public:
  // Beginnings whose hashes meet in one entry push each other out, so that the table has a size.
  static constexpr size_t kNumEntries = 8192;

  Router(int num_replicas, uint64_t seed);

  // The replica for a prompt of these beginnings, the shortest first; it is taken to have them from
  // now on. Nullopt when none can answer. REQUIRES: as many views as replicas.
  std::optional<int> Choose(std::span<const ReplicaView> replicas,
                            std::span<const Beginning> beginnings);
  // What the replica had in its cache is gone.
  void Forget(int replica) { ++epochs_[static_cast<size_t>(replica)]; }

 private:
  struct Entry {
    uint64_t hash = 0;
    int32_t replica = -1;
    uint32_t epoch = 0;
  };
  struct Known {
    int replica = -1;
    int32_t tokens = 0;
  };

  Entry& EntryOf(uint64_t hash) { return entries_[hash % kNumEntries]; }
  // Who has the longest of them.
  std::optional<Known> Find(std::span<const ReplicaView> replicas,
                            std::span<const Beginning> beginnings);
  int BetterOfTwo(std::span<const ReplicaView> replicas, std::span<const double> waits);

  std::vector<Entry> entries_;
  std::vector<uint32_t> epochs_;  // by replica
  std::mt19937_64 random_;
  std::vector<int> able_;  // scratch
};

}  // namespace beamline
