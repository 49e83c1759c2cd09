// The tokens of all hypotheses of a beam search as one tree. A fork shares the tokens before it, so
// a step costs O(width) at any length.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/api/request.h"

namespace beamline {

class HypothesisTree {
 public:
  static constexpr int32_t kRoot = 0;  // the prompt; has no token

  struct Node {
    int32_t parent = -1;
    int32_t length = 0;  // tokens from the root to this node
    int32_t token = -1;
    float logprob = 0.0f;
    int32_t top = -1;  // from AddTop; -1: none
  };

  HypothesisTree() : nodes_(1) {}

  // Allocates memory for `num_nodes` nodes at once, because growing copies the tree.
  void Reserve(size_t num_nodes) { nodes_.reserve(num_nodes); }

  // Stores the top tokens of one row at one step; the nodes that continue the row share them.
  int32_t AddTop(std::vector<TokenLogprob> top);
  int32_t Add(int32_t parent, int32_t token, float logprob, int32_t top);

  const Node& operator[](int32_t node) const { return nodes_[node]; }
  // The nodes from the child of `ancestor` down to `node`.
  std::vector<int32_t> Path(int32_t ancestor, int32_t node) const;
  // The deepest node that is an ancestor of all `nodes`, or one of them. REQUIRES: nodes is not
  // empty. Reorders it.
  int32_t CommonAncestor(std::vector<int32_t>& nodes) const;
  PositionLogprobs Logprobs(int32_t node) const;

 private:
  std::vector<Node> nodes_;
  std::vector<std::vector<TokenLogprob>> tops_;
};

}  // namespace beamline
