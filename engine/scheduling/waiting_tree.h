// The jobs that wait, in a tree that tells whose turn is next without looking at all of them:
// waiting raises priorities (WaitingOrder), so that their order is another one at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "engine/scheduling/waiting_order.h"

namespace beamline {

// A treap by the moment since which a job has the priority 0 (WaitingOrder::Since): what has
// reached a priority lies together, however it did. Each node knows whose turn is first below it.
// Not thread safe.
//
// JobType has a `rank`, which the tree copies, and a `turn`, which is the tree's.
template <typename JobType>
class WaitingTree {
 public:
  static constexpr int32_t kNone = -1;
  struct Node {
    WaitingRank rank;
    Clock::time_point since;
    uint64_t number = 0;  // in which order they came
    JobType* job = nullptr;
    int32_t left = kNone, right = kNone;  // with an earlier `since`, a later one
    int32_t first = kNone;                // below it and itself, by turns
  };

  // REQUIRES: job.turn is kNone.
  void Add(JobType& job) {
    BEAMLINE_CHECK(job.turn == kNone);
    if (free_.empty()) {
      free_.push_back(static_cast<int32_t>(nodes_.size()));
      nodes_.emplace_back();
    }
    const int32_t index = job.turn = free_.back();
    free_.pop_back();
    node(index) = {job.rank, WaitingOrder::Since(job.rank), next_number_++, &job};
    root_ = Link(root_, index);
    ++priorities_[job.rank.priority];
  }
  // False: it is not here.
  bool Remove(JobType& job) {
    const int32_t index = job.turn;
    if (index == kNone) return false;
    root_ = Unlink(root_, index);
    const auto of = priorities_.find(node(index).rank.priority);
    if (--of->second == 0) priorities_.erase(of);
    free_.push_back(index);
    job.turn = kNone;
    return true;
  }

  int32_t root() const { return root_; }
  const Node& node(int32_t index) const { return nodes_[static_cast<size_t>(index)]; }
  // Tells `order` of all ranks that are here, as far as it needs to know them.
  void AddTo(WaitingOrder& order) const {
    if (priorities_.empty()) return;
    order.Add({.priority = priorities_.begin()->first});
    order.Add({.priority = priorities_.rbegin()->first});
  }
  // How many nodes Add and Remove have come by.
  int64_t num_visits() const { return num_visits_; }

 private:
  Node& node(int32_t index) { return nodes_[static_cast<size_t>(index)]; }
  bool IsLeft(const Node& a, const Node& b) const {
    return std::tie(a.since, a.number) < std::tie(b.since, b.number);
  }
  // A tree in which who came is anywhere with the same chance is as deep as a balanced one, about.
  static uint64_t Weight(const Node& node) {
    uint64_t weight = node.number * 0x9e3779b97f4a7c15;
    weight = (weight ^ (weight >> 32)) * 0xd6e8feb86659fd93;
    return weight ^ (weight >> 32);
  }
  int32_t FirstOf(int32_t a, int32_t b) const {
    if (a == kNone || b == kNone) return a == kNone ? b : a;
    const auto turn = [](const Node& of) {
      return std::tie(of.rank.fair_tag, of.rank.arrival, of.number);
    };
    return turn(node(b)) < turn(node(a)) ? b : a;
  }
  void Update(int32_t index) {
    ++num_visits_;
    Node& at = node(index);
    at.first = index;
    for (const int32_t child : {at.left, at.right}) {
      if (child != kNone) at.first = FirstOf(at.first, node(child).first);
    }
  }

  int32_t Link(int32_t tree, int32_t index) {
    Node& added = node(index);
    if (tree == kNone || Weight(added) > Weight(node(tree))) {
      Split(tree, added, added.left, added.right);
      Update(index);
      return index;
    }
    Node& at = node(tree);
    int32_t& child = IsLeft(added, at) ? at.left : at.right;
    child = Link(child, index);
    Update(tree);
    return tree;
  }
  int32_t Unlink(int32_t tree, int32_t index) {
    Node& at = node(tree);
    if (tree == index) return Merge(at.left, at.right);
    int32_t& child = IsLeft(node(index), at) ? at.left : at.right;
    child = Unlink(child, index);
    Update(tree);
    return tree;
  }
  // What is left of `bound`, and the rest.
  void Split(int32_t tree, const Node& bound, int32_t& left, int32_t& right) {
    if (tree == kNone) {
      left = right = kNone;
      return;
    }
    Node& at = node(tree);
    if (IsLeft(at, bound)) {
      left = tree;
      Split(at.right, bound, at.right, right);
    } else {
      right = tree;
      Split(at.left, bound, left, at.left);
    }
    Update(tree);
  }
  // All of `left` is left of all of `right`.
  int32_t Merge(int32_t left, int32_t right) {
    if (left == kNone || right == kNone) return left == kNone ? right : left;
    const bool is_left = Weight(node(left)) > Weight(node(right));
    const int32_t top = is_left ? left : right;
    Node& at = node(top);
    int32_t& child = is_left ? at.right : at.left;
    child = is_left ? Merge(at.right, right) : Merge(left, at.left);
    Update(top);
    return top;
  }

  std::vector<Node> nodes_;
  std::vector<int32_t> free_;  // places in nodes_
  int32_t root_ = kNone;
  uint64_t next_number_ = 0;
  std::map<int32_t, int64_t> priorities_;  // how many have each
  int64_t num_visits_ = 0;
};

}  // namespace beamline
