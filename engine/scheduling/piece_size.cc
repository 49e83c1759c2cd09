#include "engine/scheduling/piece_size.h"

#include <algorithm>

namespace beamline {
namespace {

// Weight of earlier measurements at each step. Longer times are adopted faster than shorter ones,
// because the next prompt may have a long context.
constexpr double kKeptDecode = 0.9;
constexpr double kKeptOfShorter = 0.25;
constexpr double kKeptOfLonger = 0.9;
// Minimum share of a mixed step's time that is attributed to its prompt tokens.
constexpr double kLeastShare = 0.1;

double Blend(double kept, double before, double now) {
  return before == 0 ? now : kept * before + (1 - kept) * now;
}

}  // namespace

void PieceSize::AddStep(int32_t prompt_tokens, int32_t decode_tokens, double seconds) {
  if (seconds <= 0) return;
  if (prompt_tokens <= 0) {
    decode_seconds_ = Blend(kKeptDecode, decode_seconds_, seconds);
    return;
  }
  const int32_t size = decode_tokens > 0 ? BesideDecoding() : Alone();
  const bool is_short = decode_tokens == 0 || seconds < kAim * max_gap_;
  if (token_seconds_ > 0 && is_short && prompt_tokens < size / 2) return;
  const double decoding = decode_tokens > 0 ? decode_seconds_ : 0;
  const double now = std::max(seconds - decoding, kLeastShare * seconds) / prompt_tokens;
  token_seconds_ =
      Blend(now > token_seconds_ ? kKeptOfShorter : kKeptOfLonger, token_seconds_, now);
}

int32_t PieceSize::BesideDecoding() const {
  return TokensIn(std::max(kAim * max_gap_ - decode_seconds_, decode_seconds_), kFewest);
}

int32_t PieceSize::Alone() const { return TokensIn(kLoneGaps * max_gap_, kFewestAlone); }

int32_t PieceSize::TokensIn(double seconds, int32_t fewest) const {
  if (max_gap_ == 0) return most_;
  if (token_seconds_ == 0) return std::min(kFirst, most_);
  const double tokens = seconds / token_seconds_;
  if (tokens >= most_) return most_;
  return std::min(std::max(fewest, static_cast<int32_t>(tokens)), most_);
}

}  // namespace beamline
