// Hands out jobs that wait in WaitingOrder: of thousands it looks at a few for each that it hands
// out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "engine/scheduling/waiting_order.h"
#include "engine/scheduling/waiting_tree.h"

namespace beamline {

// Equals come as they were added, those of the tree last.
template <typename JobType>
class WaitingTurns {
 public:
  // Forgets all, and hands out those of `tree` from now on. It stays as it is until the last Next.
  void Start(const WaitingTree<JobType>& tree, Clock::time_point now) {
    tree_ = &tree;
    order_ = WaitingOrder(now);
    tree.AddTo(order_);
    heap_.clear();
    is_heap_ = false;
    opened_ = Clock::time_point::min();
    num_of_tree_ = 0;
    num_looked_at_ = 0;
  }
  // One that is not in the tree. REQUIRES: Next was not called since Start.
  void Add(JobType& job) {
    order_.Add(job.rank);
    Push({job.rank, heap_.size(), &job});
  }
  bool has_priorities() const { return order_.has_priorities(); }
  const WaitingOrder& order() const { return order_; }
  // Those that are left follow without their priorities, and `again`, which Next gave last.
  void ForgetPriorities(JobType& again) {
    is_heap_ = false;
    Push({again.rank, heap_.size(), &again});
    order_.ForgetPriorities();
  }
  // Whose turn is next, once. Null: none is left.
  JobType* Next() {
    // What of the tree is not opened yet comes behind all that is.
    while (num_of_tree_ == 0 || !order_.has_priorities()) {
      if (!OpenLevel()) break;
    }
    if (heap_.empty()) return nullptr;
    const auto is_later = [this](const Entry& a, const Entry& b) { return IsLater(a, b); };
    if (!std::exchange(is_heap_, true)) std::ranges::make_heap(heap_, is_later);
    std::ranges::pop_heap(heap_, is_later);
    const Entry next = heap_.back();
    heap_.pop_back();
    if (next.first != kNone) {
      --num_of_tree_;
      if (next.tree != kNone) TakeApart(next.tree, next.first);
    }
    return next.job;
  }
  // Entries that were made since Start.
  int64_t num_looked_at() const { return num_looked_at_; }

 private:
  using Node = typename WaitingTree<JobType>::Node;
  static constexpr int32_t kNone = WaitingTree<JobType>::kNone;

  // A job; of the tree, a node alone or with all below it, of whom this one is first.
  struct Entry {
    WaitingRank rank;
    uint64_t number = 0;
    JobType* job = nullptr;
    int32_t first = kNone;  // its node
    int32_t tree = kNone;   // that it is first of
  };

  bool IsLater(const Entry& a, const Entry& b) const {
    if (order_(a.rank, b.rank)) return false;
    if (order_(b.rank, a.rank)) return true;
    if ((a.first == kNone) != (b.first == kNone)) return b.first == kNone;
    return a.number > b.number;
  }
  void Push(Entry entry) {
    ++num_looked_at_;
    heap_.push_back(entry);
    if (!is_heap_) return;
    std::ranges::push_heap(heap_, [this](const Entry& a, const Entry& b) { return IsLater(a, b); });
  }
  void PushNode(int32_t index, int32_t tree) {
    const Node& node = tree_->node(index);
    ++num_of_tree_;
    Push({node.rank, node.number, node.job, index, tree});
  }
  void PushTree(int32_t tree) {
    if (tree != kNone) PushNode(tree_->node(tree).first, tree);
  }
  // All of `tree` but the one that was handed out.
  void TakeApart(int32_t tree, int32_t without) {
    while (tree != without) {
      const Node& at = tree_->node(tree);
      PushNode(tree, kNone);
      const bool is_left = at.left != kNone && tree_->node(at.left).first == without;
      PushTree(is_left ? at.right : at.left);
      tree = is_left ? at.left : at.right;
    }
    PushTree(tree_->node(tree).left);
    PushTree(tree_->node(tree).right);
  }
  // Of what lies behind opened_, those that have the highest priority by now. False: none is left.
  bool OpenLevel() {
    // The first one behind it, which the others are as high as.
    int32_t begin = kNone;
    for (int32_t tree = tree_->root(); tree != kNone;) {
      const Node& at = tree_->node(tree);
      if (at.since > opened_) begin = tree;
      tree = at.since > opened_ ? at.left : at.right;
    }
    if (begin == kNone) return false;
    const Clock::time_point from = opened_;
    opened_ = order_.Level(tree_->node(begin).since);
    PushRange(tree_->root(), from, opened_);
    return true;
  }
  // Those with from < since <= to, in as few entries as they come in.
  void PushRange(int32_t tree, Clock::time_point from, Clock::time_point to) {
    while (tree != kNone) {
      const Node& at = tree_->node(tree);
      if (at.since > to) {
        tree = at.left;
      } else if (at.since <= from) {
        tree = at.right;
      } else {
        break;
      }
    }
    if (tree == kNone) return;
    PushNode(tree, kNone);
    for (int32_t left = tree_->node(tree).left; left != kNone;) {
      const Node& at = tree_->node(left);
      if (at.since <= from) {
        left = at.right;
        continue;
      }
      PushNode(left, kNone);
      PushTree(at.right);
      left = at.left;
    }
    for (int32_t right = tree_->node(tree).right; right != kNone;) {
      const Node& at = tree_->node(right);
      if (at.since > to) {
        right = at.left;
        continue;
      }
      PushNode(right, kNone);
      PushTree(at.left);
      right = at.right;
    }
  }

  const WaitingTree<JobType>* tree_ = nullptr;
  WaitingOrder order_{Clock::time_point()};
  std::vector<Entry> heap_;
  bool is_heap_ = false;
  Clock::time_point opened_;  // of the tree, what lies up to it is in heap_, or was
  int64_t num_of_tree_ = 0;   // entries of it
  int64_t num_looked_at_ = 0;
};

}  // namespace beamline
