// What holds for every way of decoding, over random options, models and stops.
#include "engine/decoding/group_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/engine/decoding/random_options.h"
#include "tests/engine/decoding/toy_loop.h"

namespace beamline::group_decoder_test {
namespace {

constexpr int kRounds = 1500;

bool Contains(const TokenIds& ids, int32_t id) { return std::ranges::find(ids, id) != ids.end(); }

// The end of the first stop string in the text that ends behind byte `from`, and its size;
// {npos, 0}: none.
std::pair<size_t, size_t> FindStop(const std::string& text, const std::vector<std::string>& stops,
                                   size_t from) {
  for (size_t end = from + 1; end <= text.size(); ++end) {
    size_t longest = 0;
    for (const std::string& stop : stops) {
      if (text.substr(0, end).ends_with(stop)) longest = std::max(longest, stop.size());
    }
    if (longest > 0) return {end, longest};
  }
  return {std::string::npos, 0};
}

// Of the tokens that have text.
TokenIds IdsOfText(const ResolvedDecoding& decoding, TokenIds ids) {
  if (!ids.empty() && !decoding.include_stop && Contains(decoding.stop_token_ids, ids.back()) &&
      !Contains(decoding.eos_token_ids, ids.back())) {
    ids.pop_back();
  }
  return ids;
}

// Bytes of the text with special tokens that are there before a stop string may end.
size_t HeldBytes(const ToyTokenizer& tokenizer, const ResolvedDecoding& decoding,
                 const TokenIds& ids) {
  if (!decoding.min_holds_stops) return 0;
  const auto detokenizer = tokenizer.StartDecoding(/*skip_special_tokens=*/false);
  size_t bytes = 0;
  for (size_t i = 0; i < ids.size() && i < static_cast<size_t>(decoding.min_new_tokens); ++i) {
    bytes += detokenizer->Append(ids[i]).size();
  }
  return bytes;
}

// The text less its special tokens, and less what it has of one at its end. No other token has a
// '<' or '>'.
std::string WithoutSpecials(std::string text) {
  for (size_t begin; (begin = text.find('<')) != std::string::npos;) {
    const size_t end = text.find('>', begin);
    text.erase(begin, end == std::string::npos ? end : end + 1 - begin);
  }
  return text;
}

// Whether a hidden token comes after a part of a character, which either text decodes in its own
// way.
bool HidesBesideHalves(const ToyTokenizer& tokenizer, const TokenIds& ids) {
  const auto full = tokenizer.StartDecoding(/*skip_special_tokens=*/false);
  const auto shown = tokenizer.StartDecoding(/*skip_special_tokens=*/true);
  return std::ranges::any_of(ids, [&](int32_t id) {
    const std::string piece = full->Append(id);
    return WithoutSpecials(piece) != shown->Append(id);
  });
}

// Text and reason follow from the ids alone.
void CheckEnd(const ToyTokenizer& tokenizer, const ResolvedDecoding& decoding,
              const GeneratedSequence& sequence) {
  const TokenIds ids = IdsOfText(decoding, sequence.ids);
  const std::string full = *tokenizer.Decode(ids, /*skip=*/false);
  const std::string whole = *tokenizer.Decode(ids, decoding.output.skip_special_tokens);
  const size_t held = HeldBytes(tokenizer, decoding, ids);
  const auto [end, size] = FindStop(full, decoding.stop, held);
  const int32_t last = sequence.ids.empty() ? -1 : sequence.ids.back();
  if (size > 0) {
    EXPECT_EQ(sequence.finish_reason, FinishReason::kStop);
    const std::string kept = full.substr(0, decoding.include_stop ? end : end - size);
    if (!decoding.output.skip_special_tokens) {
      EXPECT_EQ(sequence.text, kept);
    } else if (!HidesBesideHalves(tokenizer, ids)) {
      EXPECT_EQ(sequence.text, WithoutSpecials(kept));
    } else {
      EXPECT_TRUE(whole.starts_with(sequence.text) && IsWholeCharacters(sequence.text));
    }
    const TokenIds before(ids.begin(), ids.end() - 1);
    EXPECT_EQ(FindStop(*tokenizer.Decode(before, /*skip=*/false), decoding.stop, held).second, 0);
    return;
  }
  EXPECT_EQ(sequence.text, whole);
  if (Contains(decoding.eos_token_ids, last)) {
    EXPECT_EQ(sequence.finish_reason, FinishReason::kEos);
  } else if (Contains(decoding.stop_token_ids, last)) {
    EXPECT_EQ(sequence.finish_reason, FinishReason::kStop);
  } else {
    EXPECT_TRUE(sequence.finish_reason == FinishReason::kLength ||
                sequence.finish_reason == FinishReason::kDeadline);
  }
}

// Log-probabilities are the model's own, whatever the edits.
void CheckLogprobs(const ToyModel& model, const TokenIds& prompt, const ResolvedDecoding& decoding,
                   const GeneratedSequence& sequence) {
  TokenIds history = prompt;
  double sum = 0.0;
  for (size_t i = 0; i < sequence.ids.size(); ++i) {
    const std::vector<double> logprobs = LogSoftmax(model(history));
    const int32_t id = sequence.ids[i];
    sum += logprobs[id];
    history.push_back(id);
    if (!decoding.output.return_logprobs) continue;
    const PositionLogprobs& position = sequence.logprobs[i];
    EXPECT_EQ(position.chosen.id, id);
    EXPECT_NEAR(position.chosen.logprob, logprobs[id], 1e-3);
    EXPECT_LE(position.top.size(), static_cast<size_t>(decoding.output.logprobs));
    for (size_t k = 0; k < position.top.size(); ++k) {
      EXPECT_NEAR(position.top[k].logprob, logprobs[position.top[k].id], 1e-3);
    }
    EXPECT_TRUE(
        std::ranges::is_sorted(position.top, std::ranges::greater{}, &TokenLogprob::logprob));
  }
  EXPECT_NEAR(sequence.cumulative_logprob, sum, 1e-2);
  EXPECT_EQ(sequence.logprobs.size(), decoding.output.return_logprobs ? sequence.ids.size() : 0);
}

void CheckStream(const ToyRun& run) {
  for (size_t i = 0; i < run.sequences.size(); ++i) {
    const GeneratedSequence& sequence = run.sequences[i];
    const auto found = run.streamed.find(static_cast<int32_t>(i));
    const GenerateDelta streamed = found == run.streamed.end() ? GenerateDelta{} : found->second;
    EXPECT_EQ(streamed.ids, sequence.ids);
    EXPECT_EQ(streamed.text, sequence.text);
    EXPECT_EQ(streamed.logprobs.size(), sequence.logprobs.size());
  }
  EXPECT_LE(run.streamed.size(), run.sequences.size());
  for (const std::string& text : run.first_texts) {
    EXPECT_TRUE(run.sequences[0].text.starts_with(text));
    EXPECT_TRUE(IsWholeCharacters(text)) << "half a character was streamed";
  }
}

TEST(GroupDecoder, TextEndsLogprobsAndStreamsAgreeWithTheIds) {
  Random random(TestSeed());
  const ToyTokenizer tokenizer = LetterTokenizer();
  for (int round = 0; round < kRounds; ++round) {
    const ResolvedDecoding decoding = RandomDecoding(random);
    const ToyModel model = RandomModel(random.Seed(), decoding.vocab_size, 2);
    const TokenIds prompt = random.Ids(random.Int(1, 6), decoding.vocab_size);
    const bool streams = random.Chance(0.7);
    const ToyRunOptions options{.stop_after_steps = random.Chance(0.2) ? random.Int(0, 8) : -1};
    const auto decoder = GroupDecoder::Create(decoding, prompt, tokenizer, streams);
    const ToyRun run = RunGroup(*decoder, model, prompt, options);
    SCOPED_TRACE("round " + std::to_string(round));

    ASSERT_FALSE(run.sequences.empty());
    EXPECT_LE(run.sequences.size(), static_cast<size_t>(decoding.num_sequences));
    EXPECT_LE(run.most_rows, static_cast<size_t>(decoder->max_rows()));
    int32_t num_tokens = 0;
    for (const GeneratedSequence& sequence : run.sequences) {
      EXPECT_LE(sequence.ids.size(), static_cast<size_t>(decoding.max_new_tokens));
      CheckEnd(tokenizer, decoding, sequence);
      CheckLogprobs(model, prompt, decoding, sequence);
      num_tokens += static_cast<int32_t>(sequence.ids.size());
    }
    EXPECT_EQ(decoder->num_generated_tokens(), num_tokens);
    // What admission is told of a request's cost, which no group exceeds.
    EXPECT_GE(decoder->num_computed_tokens(), num_tokens);
    EXPECT_LE(decoder->num_computed_tokens(),
              int64_t{decoder->max_rows()} * decoding.max_new_tokens);
    if (decoding.kind == DecodingKind::kBeam) {
      EXPECT_EQ(decoder->num_computed_tokens(), int64_t{decoder->max_rows()} * run.num_steps);
    }
    EXPECT_TRUE(streams || run.streamed.empty());
    if (streams) CheckStream(run);
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(GroupDecoder, StreamsChangeNothing) {
  Random random(TestSeed());
  const ToyTokenizer tokenizer = LetterTokenizer();
  for (int round = 0; round < 300; ++round) {
    const ResolvedDecoding decoding = RandomDecoding(random);
    const ToyModel model = RandomModel(random.Seed(), decoding.vocab_size, 2);
    const TokenIds prompt = random.Ids(2, decoding.vocab_size);
    std::vector<std::vector<TokenIds>> answers;
    for (const bool streams : {false, true}) {
      const auto decoder = GroupDecoder::Create(decoding, prompt, tokenizer, streams);
      std::vector<TokenIds>& ids = answers.emplace_back();
      for (const auto& sequence : RunGroup(*decoder, model, prompt).sequences) {
        ids.push_back(sequence.ids);
      }
    }
    ASSERT_EQ(answers[0], answers[1]);
  }
}

TEST(GroupDecoder, BannedTokensAndNgramsNeverAppear) {
  Random random(TestSeed());
  const ToyTokenizer tokenizer = LetterTokenizer();
  for (int round = 0; round < 500; ++round) {
    ResolvedDecoding decoding = RandomDecoding(random);
    decoding.forced_bos = decoding.forced_eos = -1;  // forced tokens override bans
    const TokenIds prompt = random.Ids(random.Int(1, 5), decoding.vocab_size);
    const auto decoder = GroupDecoder::Create(decoding, prompt, tokenizer, false);
    const ToyRun run =
        RunGroup(*decoder, RandomModel(random.Seed(), decoding.vocab_size, 2), prompt);
    for (const GeneratedSequence& sequence : run.sequences) {
      TokenIds history = prompt;
      for (const int32_t id : sequence.ids) {
        history.push_back(id);
        EXPECT_FALSE(Contains(decoding.suppress_tokens, id));
        for (const TokenIds& word : decoding.bad_words) {
          if (word == TokenIds{0}) continue;  // an end token is no bad word
          EXPECT_FALSE(word.size() <= history.size() &&
                       std::equal(word.rbegin(), word.rend(), history.rbegin()));
        }
        const auto n = static_cast<size_t>(decoding.no_repeat_ngram_size);
        if (n == 0 || history.size() < n) continue;
        const auto ngram = history.end() - n;
        EXPECT_EQ(std::search(history.begin(), history.end(), ngram, history.end()), ngram);
      }
      const bool is_held =
          sequence.finish_reason == FinishReason::kEos ||
          (sequence.finish_reason == FinishReason::kStop && decoding.min_holds_stops);
      EXPECT_TRUE(!is_held || static_cast<int32_t>(sequence.ids.size()) > decoding.min_new_tokens);
    }
    ASSERT_FALSE(testing::Test::HasFailure());
  }
}

TEST(GroupDecoder, NothingAllowedEndsWithoutATokenInsteadOfABannedOne) {
  const ToyTokenizer tokenizer = LetterTokenizer();
  for (const auto kind : {DecodingKind::kGreedy, DecodingKind::kSampling, DecodingKind::kBeam}) {
    ResolvedDecoding decoding;
    decoding.kind = kind;
    decoding.beam_width = 3;
    decoding.max_new_tokens = 5;
    decoding.vocab_size = tokenizer.vocab_size();
    for (int32_t id = 0; id < decoding.vocab_size; ++id) decoding.suppress_tokens.push_back(id);
    const auto decoder = GroupDecoder::Create(decoding, {2}, tokenizer, true);
    const ToyRun run = RunGroup(*decoder, RandomModel(1, decoding.vocab_size), {2});
    ASSERT_EQ(run.sequences.size(), 1);
    EXPECT_TRUE(run.sequences[0].ids.empty());
    EXPECT_EQ(run.sequences[0].finish_reason, FinishReason::kLength);
  }
}

}  // namespace
}  // namespace beamline::group_decoder_test
