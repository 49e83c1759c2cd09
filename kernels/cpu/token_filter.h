// The tokens of one row that sampling may still choose, and the filters that narrow them, with the
// semantics of Hugging Face's logits warpers.
#pragma once

#include <cstdint>
#include <vector>

namespace beamline::cpu {

struct Token {
  float score = 0;  // logit / temperature
  float mass = 0;   // exp(score - the row's maximum)
  float key = 0;    // what the latest prefix filter orders by; lower comes first
  int32_t id = 0;
};

double TotalMass(const std::vector<Token>& tokens);

// Top-p: the fewest highest-scored tokens whose mass reaches `mass`, at least one. Ties keep the
// lower id.
void KeepTopMass(std::vector<Token>& tokens, double mass);

// Min-p: tokens at least `min_p` times as probable as the best one (mass 1).
void KeepMinP(std::vector<Token>& tokens, float min_p);

// Typical-p: the tokens whose information is closest to the entropy, until their probability
// reaches typical_p, at least one. `maximum` is the score with mass 1. Source: Meister et al.,
// arXiv:2202.00666.
void KeepTypical(std::vector<Token>& tokens, float maximum, double typical_p);

}  // namespace beamline::cpu
