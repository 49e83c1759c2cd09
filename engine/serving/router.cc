#include "engine/serving/router.h"

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

namespace beamline {

std::vector<Beginning> BeginningsOf(absl::Span<const int32_t> prompt, std::string_view salt,
                                    int32_t block_size) {
  std::vector<Beginning> beginnings;
  uint64_t hash = absl::HashOf(salt);
  size_t begin = 0;
  for (auto end = static_cast<size_t>(block_size); end < prompt.size(); end *= 2) {
    hash = absl::HashOf(hash, prompt.subspan(begin, end - begin));
    beginnings.push_back({hash, static_cast<int32_t>(end)});
    begin = end;
  }
  return beginnings;
}

std::vector<double> ExpectedWaits(std::span<const ReplicaView> replicas) {
  double sum = 0;
  int measured = 0;
  for (const ReplicaView& replica : replicas) {
    if (replica.seconds_per_token <= 0) continue;
    sum += replica.seconds_per_token;
    ++measured;
  }
  // Before anything is measured only what they have before them tells them apart.
  constexpr double kAssumedSecondsPerToken = 1e-4;
  const double average = measured > 0 ? sum / measured : kAssumedSecondsPerToken;
  std::vector<double> waits;
  waits.reserve(replicas.size());
  for (const ReplicaView& replica : replicas) {
    const double rate = replica.seconds_per_token > 0 ? replica.seconds_per_token : average;
    waits.push_back(static_cast<double>(replica.tokens) * rate);
  }
  return waits;
}

Router::Router(int num_replicas, uint64_t seed)
    : entries_(num_replicas > 1 ? kNumEntries : 0),
      epochs_(static_cast<size_t>(num_replicas)),
      random_(seed) {}

std::optional<int> Router::Choose(std::span<const ReplicaView> replicas,
                                  std::span<const Beginning> beginnings) {
  able_.clear();
  for (size_t i = 0; i < replicas.size(); ++i) {
    if (replicas[i].can_answer) able_.push_back(static_cast<int>(i));
  }
  if (able_.empty()) return std::nullopt;
  if (replicas.size() == 1) return 0;
  const std::vector<double> waits = ExpectedWaits(replicas);
  int chosen = BetterOfTwo(replicas, waits);
  if (const std::optional<Known> known = Find(replicas, beginnings)) {
    // It may wait as long as computing the beginning anew takes, and no longer.
    const ReplicaView& view = replicas[static_cast<size_t>(known->replica)];
    const double saved = view.seconds_per_token * known->tokens;
    if (waits[static_cast<size_t>(known->replica)] <= waits[static_cast<size_t>(chosen)] + saved) {
      chosen = known->replica;
    }
  }
  for (const Beginning& beginning : beginnings) {
    EntryOf(beginning.hash) = {beginning.hash, chosen, epochs_[static_cast<size_t>(chosen)]};
  }
  return chosen;
}

std::optional<Router::Known> Router::Find(std::span<const ReplicaView> replicas,
                                          std::span<const Beginning> beginnings) {
  for (auto beginning = beginnings.rbegin(); beginning != beginnings.rend(); ++beginning) {
    const Entry& entry = EntryOf(beginning->hash);
    if (entry.replica < 0 || entry.hash != beginning->hash) continue;
    const auto replica = static_cast<size_t>(entry.replica);
    if (entry.epoch != epochs_[replica] || !replicas[replica].can_answer) continue;
    return Known{entry.replica, beginning->tokens};
  }
  return std::nullopt;
}

int Router::BetterOfTwo(std::span<const ReplicaView> replicas, std::span<const double> waits) {
  const auto draw = [this](size_t count) {
    return std::uniform_int_distribution<size_t>(0, count - 1)(random_);
  };
  const size_t first = draw(able_.size());
  if (able_.size() == 1) return able_[first];
  const size_t other = (first + 1 + draw(able_.size() - 1)) % able_.size();
  const int a = able_[first], b = able_[other];
  const auto rank = [&](int replica) {
    const auto i = static_cast<size_t>(replica);
    return std::pair(waits[i], replicas[i].requests);
  };
  return rank(b) < rank(a) ? b : a;
}

}  // namespace beamline
