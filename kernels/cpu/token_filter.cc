#include "kernels/cpu/token_filter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace beamline::cpu {
namespace {

constexpr ptrdiff_t kSortSize = 32;

bool ComesFirst(const Token& a, const Token& b) {
  return a.key < b.key || (a.key == b.key && a.id < b.id);
}

// Four partial sums hide the latency of additions.
double MassOf(const Token* begin, const Token* end) {
  double mass[4] = {};
  const Token* token = begin;
  for (; token + 4 <= end; token += 4) {
    for (int i = 0; i < 4; ++i) mass[i] += token[i].mass;
  }
  for (; token < end; ++token) mass[0] += token->mass;
  return (mass[0] + mass[1]) + (mass[2] + mass[3]);
}

// The median of three tokens of the range, so that it has others before and after it.
Token MedianOfThree(const Token* begin, const Token* end) {
  Token a = begin[0];
  Token b = begin[(end - begin) / 2];
  const Token& c = end[-1];
  if (ComesFirst(b, a)) std::swap(a, b);
  if (ComesFirst(c, a)) return a;
  return ComesFirst(c, b) ? c : b;
}

// The last token of the shortest prefix, in the order of keys, whose mass reaches `target`. A
// quickselect by mass, which avoids sorting the whole vocabulary. Reorders the tokens. REQUIRES:
// not empty.
Token LastOfPrefix(std::vector<Token>& tokens, double target) {
  Token* low = tokens.data();         // everything before it is in the prefix
  Token* high = low + tokens.size();  // everything from here on is not in the prefix
  double mass = 0;                    // of the tokens before low
  while (high - low > kSortSize) {
    const Token pivot = MedianOfThree(low, high);
    Token* middle =
        std::partition(low, high, [&](const Token& token) { return ComesFirst(token, pivot); });
    const double left = MassOf(low, middle);
    if (mass + left < target) {
      mass += left;
      low = middle;
    } else {
      high = middle;
    }
  }
  std::sort(low, high, ComesFirst);
  Token* last = low;
  for (; last + 1 < high; ++last) {
    mass += last->mass;
    if (mass >= target) break;
  }
  return *last;
}

// Keeps the shortest prefix, in the order of keys, whose mass reaches `target`; at least one token.
// Keeps the order of the tokens.
void KeepPrefix(std::vector<Token>& tokens, double target) {
  static thread_local std::vector<Token> reordered;
  reordered.assign(tokens.begin(), tokens.end());
  const Token last = LastOfPrefix(reordered, target);
  std::erase_if(tokens, [&](const Token& token) { return ComesFirst(last, token); });
}

}  // namespace

double TotalMass(const std::vector<Token>& tokens) {
  return MassOf(tokens.data(), tokens.data() + tokens.size());
}

void KeepTopMass(std::vector<Token>& tokens, double mass) {
  for (Token& token : tokens) token.key = -token.score;
  KeepPrefix(tokens, mass);
}

void KeepMinP(std::vector<Token>& tokens, float min_p) {
  std::erase_if(tokens, [min_p](const Token& token) { return token.mass < std::min(min_p, 1.0f); });
}

void KeepTypical(std::vector<Token>& tokens, float maximum, double typical_p) {
  const double total = TotalMass(tokens);
  const float log_total = static_cast<float>(std::log(total));
  double entropy = 0;
  for (const Token& token : tokens) {
    const float log_probability = token.score - maximum - log_total;
    if (token.mass > 0) entropy -= token.mass / total * log_probability;
  }
  for (Token& token : tokens) {
    const float log_probability = token.score - maximum - log_total;
    token.key = std::abs(-log_probability - static_cast<float>(entropy));
  }
  KeepPrefix(tokens, typical_p * total);
}

}  // namespace beamline::cpu
