#include "engine/scheduling/put_back.h"

#include <algorithm>
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

// What the running groups of one client hold.
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

// Gives room in turn until nothing is missing.
class Giving {
 public:
  Giving(const GroupState& newcomer, const Room& room, std::span<const GroupState> groups)
      : newcomer_(newcomer), room_(room), groups_(groups), holdings_(HoldingsOf(groups)) {}

  // The next group that gives; -1: none may.
  int32_t Next() {
    int32_t best = -1;
    for (int32_t i = 0; i < static_cast<int32_t>(groups_.size()); ++i) {
      if (MayGive(i) && (best < 0 || GivesBefore(i, best))) best = i;
    }
    if (best < 0) return best;
    const GroupState& group = groups_[best];
    Holding& holding = holdings_[group.client];
    --holding.groups;
    holding.rows -= group.max_rows;
    holding.blocks -= BlocksOf(group);
    room_.missing_rows -= group.max_rows;
    room_.missing_blocks -= BlocksOf(group);
    given_.push_back(best);
    return best;
  }
  bool IsEnough() const { return room_.missing_rows <= 0 && room_.missing_blocks <= 0; }

 private:
  bool MayGive(int32_t index) const {
    const GroupState& group = groups_[index];
    if (!group.running || group.priority > newcomer_.priority) return false;
    if (std::ranges::find(given_, index) != given_.end()) return false;
    const Holding& holding = holdings_.find(group.client)->second;
    if (holding.groups < 2) return false;
    if (room_.missing_rows > 0 && holding.rows - group.max_rows < room_.rows) return false;
    return room_.missing_blocks <= 0 || holding.blocks - BlocksOf(group) >= room_.blocks;
  }
  int32_t HeldBy(const GroupState& group) const {
    const Holding& holding = holdings_.find(group.client)->second;
    return room_.missing_rows > 0 ? holding.rows : holding.blocks;
  }
  bool GivesBefore(int32_t left, int32_t right) const {
    const GroupState& a = groups_[left];
    const GroupState& b = groups_[right];
    if (a.priority != b.priority) return a.priority < b.priority;
    const int32_t held_a = HeldBy(a), held_b = HeldBy(b);
    if (held_a != held_b) return held_a > held_b;
    return a.admission > b.admission;
  }

  const GroupState& newcomer_;
  Room room_;
  std::span<const GroupState> groups_;
  Holdings holdings_;
  std::vector<int32_t> given_;
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
