// The remaining tokens of one row during sampling, and the filters that reduce them, with the
// semantics of Hugging Face's logits warpers.
#pragma once

#include <cstdint>
#include <vector>

namespace beamline::cpu {

struct Token {
  float score = 0;  // logit / temperature
  float mass = 0;   // exp(score - the row's maximum)
  float key = 0;    // sort key of the latest prefix filter; lower comes first
  int32_t id = 0;
};

double TotalMass(const std::vector<Token>& tokens);

// Top-p: keeps the fewest highest-scored tokens whose mass reaches `mass`, at least one. Ties keep
// the lower id.
void KeepTopMass(std::vector<Token>& tokens, double mass);

// Min-p: keeps tokens at least `min_p` times as probable as the best one (mass 1).
void KeepMinP(std::vector<Token>& tokens, float min_p);

// Typical-p: keeps the tokens whose information is closest to the entropy, until their probability
// reaches typical_p; at least one. `maximum`: the score with mass 1. Source: Meister et al.,
// arXiv:2202.00666.
void KeepTypical(std::vector<Token>& tokens, float maximum, double typical_p);

}  // namespace beamline::cpu
