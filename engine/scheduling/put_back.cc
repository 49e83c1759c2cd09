#include "engine/scheduling/put_back.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace beamline {
namespace {

int32_t BlocksOf(const GroupState& group) {
  int32_t blocks = 0;
  for (const RowState& row : group.rows) blocks += row.num_blocks;
  return blocks;
}

// What one client's running groups hold.
struct Holding {
  int32_t groups = 0;
  int32_t rows = 0;
  int32_t blocks = 0;
};

using Holdings = absl::flat_hash_map<std::string_view, Holding>;

Holdings HoldingsOf(std::span<const GroupState> groups) {
  Holdings holdings;
  for (const GroupState& group : groups) {
    if (!group.running) continue;
    Holding& holding = holdings[group.client];
    ++holding.groups;
    holding.rows += group.max_rows;
    holding.blocks += BlocksOf(group);
  }
  return holdings;
}

// Chooses groups to preempt, one after the other, until nothing is missing.
class Giving {
 public:
  Giving(const GroupState& newcomer, const Room& room, std::span<const GroupState> groups)
      : newcomer_(newcomer), room_(room), holdings_(HoldingsOf(groups)) {
    for (int32_t i = 0; i < static_cast<int32_t>(groups.size()); ++i) {
      const GroupState& group = groups[static_cast<size_t>(i)];
      if (!group.running || group.priority > newcomer.priority) continue;
      left_.push_back({i, &group, &holdings_.find(group.client)->second, BlocksOf(group)});
    }
  }

  // The next group to preempt; -1: none is allowed.
  int32_t Next() {
    size_t best = left_.size();
    for (size_t i = 0; i < left_.size(); ++i) {
      if (MayGive(left_[i]) && (best == left_.size() || GivesBefore(left_[i], left_[best]))) {
        best = i;
      }
    }
    if (best == left_.size()) return -1;
    const Candidate gives = left_[best];
    left_[best] = left_.back();
    left_.pop_back();
    --gives.holding->groups;
    gives.holding->rows -= gives.group->max_rows;
    gives.holding->blocks -= gives.blocks;
    room_.missing_rows -= gives.group->max_rows;
    room_.missing_blocks -= gives.blocks;
    return gives.index;
  }
  bool IsEnough() const { return room_.missing_rows <= 0 && room_.missing_blocks <= 0; }

 private:
  struct Candidate {
    int32_t index = 0;
    const GroupState* group = nullptr;
    Holding* holding = nullptr;  // of its client
    int32_t blocks = 0;
  };

  bool MayGive(const Candidate& one) const {
    if (one.holding->groups < 2) return false;
    if (room_.missing_rows > 0 && one.holding->rows - one.group->max_rows < room_.rows) {
      return false;
    }
    return room_.missing_blocks <= 0 || one.holding->blocks - one.blocks >= room_.blocks;
  }
  int32_t HeldBy(const Candidate& one) const {
    return room_.missing_rows > 0 ? one.holding->rows : one.holding->blocks;
  }
  bool GivesBefore(const Candidate& a, const Candidate& b) const {
    if (a.group->priority != b.group->priority) return a.group->priority < b.group->priority;
    const int32_t held_a = HeldBy(a), held_b = HeldBy(b);
    if (held_a != held_b) return held_a > held_b;
    return a.group->admission > b.group->admission;
  }

  const GroupState& newcomer_;
  Room room_;
  Holdings holdings_;  // of clients; none is added later
  std::vector<Candidate> left_;
};

}  // namespace

int32_t PutBackForBlocks(std::span<const GroupState> groups) {
  const Holdings holdings = HoldingsOf(groups);
  const auto is_only_one = [&](const GroupState& group) {
    return holdings.find(group.client)->second.groups == 1;
  };
  const auto worst =
      std::ranges::min_element(groups, [&](const GroupState& left, const GroupState& right) {
        if (left.running != right.running) return left.running;
        if (!left.running) return false;
        if (left.priority != right.priority) return left.priority < right.priority;
        const bool is_left_only = is_only_one(left), is_right_only = is_only_one(right);
        if (is_left_only != is_right_only) return is_right_only;
        return left.admission > right.admission;
      });
  return static_cast<int32_t>(worst - groups.begin());
}

int32_t PutBackFor(const GroupState& newcomer, const Room& room,
                   std::span<const GroupState> groups) {
  Giving giving(newcomer, room, groups);
  const int32_t first = giving.Next();
  for (int32_t next = first; !giving.IsEnough(); next = giving.Next()) {
    if (next < 0) return -1;
  }
  return first;
}

}  // namespace beamline
