#include "engine/decoding/hypothesis_tree.h"

#include <algorithm>
#include <utility>

namespace beamline {

int32_t HypothesisTree::AddTop(std::vector<TokenLogprob> top) {
  tops_.push_back(std::move(top));
  return static_cast<int32_t>(tops_.size()) - 1;
}

int32_t HypothesisTree::Add(int32_t parent, int32_t token, float logprob, int32_t top) {
  nodes_.push_back({.parent = parent,
                    .length = nodes_[parent].length + 1,
                    .token = token,
                    .logprob = logprob,
                    .top = top});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

std::vector<int32_t> HypothesisTree::Path(int32_t ancestor, int32_t node) const {
  std::vector<int32_t> path(nodes_[node].length - nodes_[ancestor].length);
  for (size_t i = path.size(); i > 0; --i) {
    path[i - 1] = node;
    node = nodes_[node].parent;
  }
  return path;
}

int32_t HypothesisTree::CommonAncestor(std::vector<int32_t>& nodes) const {
  // Parents have smaller indices than their children, so the largest index cannot be an ancestor of
  // the other nodes.
  std::ranges::make_heap(nodes);
  while (true) {
    std::ranges::pop_heap(nodes);
    const int32_t youngest = nodes.back();
    nodes.pop_back();
    while (!nodes.empty() && nodes.front() == youngest) {
      std::ranges::pop_heap(nodes);
      nodes.pop_back();
    }
    if (nodes.empty()) return youngest;
    nodes.push_back(nodes_[youngest].parent);
    std::ranges::push_heap(nodes);
  }
}

PositionLogprobs HypothesisTree::Logprobs(int32_t node) const {
  const Node& found = nodes_[node];
  return {.chosen = {found.token, found.logprob},
          .top = found.top < 0 ? std::vector<TokenLogprob>{} : tops_[found.top]};
}

}  // namespace beamline
