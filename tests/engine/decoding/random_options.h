// Random decoding options and the tokenizer that goes with them, for property tests.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "engine/decoding/resolved_decoding.h"
#include "tests/engine/decoding/toy_tokenizer.h"
#include "tests/test_seed.h"

namespace beamline {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  int32_t Int(int32_t min, int32_t max) { return std::uniform_int_distribution(min, max)(engine_); }
  float Float(float min, float max) {
    return std::uniform_real_distribution<float>(min, max)(engine_);
  }
  bool Chance(double probability) { return std::bernoulli_distribution(probability)(engine_); }
  uint64_t Seed() { return engine_(); }
  TokenIds Ids(int32_t count, int32_t vocab_size) {
    TokenIds ids;
    for (int32_t i = 0; i < count; ++i) ids.push_back(Int(0, vocab_size - 1));
    return ids;
  }

 private:
  std::mt19937_64 engine_;
};

// Few letters, so that stop strings happen; characters of one to four bytes, whole and in halves.
// Id 0 is the end token, id 1 another special one.
inline ToyTokenizer LetterTokenizer() {
  return ToyTokenizer({"</s>", "<pad>", "a", "b", "c", "ab", "ba", "abc", " a", " ", "\u00e9",
                       "\xC3", "\xA9", "a\xC3", "\u20ac", "\xF0\x9F", "\x98\x80", "bab"},
                      {0, 1});
}

// Kind, lengths, ends and shaping at random; valid for LetterTokenizer.
inline ResolvedDecoding RandomDecoding(Random& random) {
  static const std::vector<std::string> kStops = {
      "ab",   "abab",  "ba b",   "c",      "\u00e9", "bb",    "aab",       "a\u00e9b",
      "</s>", "<pad>", "a<pad>", "<pad>b", "d>a",    "b</s>", "<pad><pad>"};
  ResolvedDecoding decoding;
  decoding.vocab_size = LetterTokenizer().vocab_size();
  decoding.kind = static_cast<DecodingKind>(random.Int(0, 2));
  if (decoding.kind == DecodingKind::kSampling) decoding.num_sequences = random.Int(1, 4);
  if (decoding.kind == DecodingKind::kBeam) {
    decoding.num_beam_groups = random.Int(1, 3);
    decoding.beam_width =
        decoding.num_beam_groups * random.Int(2, decoding.num_beam_groups > 1 ? 3 : 5);
    decoding.diversity_penalty = random.Float(0.0f, 3.0f);
    decoding.pad_token_id = random.Int(-1, 3);
    decoding.num_sequences = random.Int(1, decoding.beam_width);
    decoding.renormalize = decoding.num_beam_groups == 1 && random.Chance(0.5);
  }
  decoding.seed = random.Seed();
  decoding.length_penalty = random.Float(-1.0f, 2.0f);
  decoding.early_stopping = static_cast<EarlyStopping>(random.Int(0, 2));
  decoding.max_new_tokens = random.Int(1, 20);
  decoding.min_new_tokens = random.Chance(0.2) ? random.Int(0, decoding.max_new_tokens) : 0;
  decoding.min_holds_stops = random.Chance(0.5);
  decoding.all_eos_token_ids = {0};
  if (random.Chance(0.8)) decoding.eos_token_ids = {0};
  if (random.Chance(0.3)) decoding.stop_token_ids = {random.Int(0, decoding.vocab_size - 1)};
  if (random.Chance(0.6)) {
    for (int32_t i = random.Int(1, 3); i > 0; --i) {
      decoding.stop.push_back(kStops[random.Int(0, static_cast<int32_t>(kStops.size()) - 1)]);
    }
  }
  decoding.include_stop = random.Chance(0.5);
  if (random.Chance(0.3)) decoding.repetition_penalty = random.Float(0.6f, 2.0f);
  if (random.Chance(0.3)) decoding.presence_penalty = random.Float(-2.0f, 2.0f);
  if (random.Chance(0.3)) decoding.frequency_penalty = random.Float(-2.0f, 2.0f);
  if (random.Chance(0.3)) decoding.no_repeat_ngram_size = random.Int(1, 4);
  if (random.Chance(0.3)) decoding.logit_bias = {{random.Int(0, 9), random.Float(-9.0f, 9.0f)}};
  if (random.Chance(0.3)) decoding.suppress_tokens = random.Ids(2, decoding.vocab_size);
  if (random.Chance(0.4)) {
    for (int32_t i = random.Int(1, 6); i > 0; --i) {
      decoding.bad_words.push_back(random.Ids(random.Int(1, 3), decoding.vocab_size));
    }
  }
  if (random.Chance(0.1)) decoding.forced_bos = random.Int(0, decoding.vocab_size - 1);
  if (random.Chance(0.2)) decoding.forced_eos = 0;
  decoding.output.return_logprobs = random.Chance(0.5);
  if (decoding.output.return_logprobs) decoding.output.logprobs = random.Int(0, 5);
  decoding.output.skip_special_tokens = random.Chance(0.7);
  return decoding;
}

}  // namespace beamline
