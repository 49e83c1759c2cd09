#include "engine/decoding/sequence_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/decoding/stop_matcher.h"
#include "tests/engine/decoding/random_options.h"

namespace beamline::sequence_text_test {
namespace {

TEST(StopMatcher, FindsOverlappingBeginnings) {
  const StopStrings strings({"abab", "abac"});
  StopMatcher matcher(strings);
  const std::string text = "abaabab";
  for (size_t i = 0; i + 1 < text.size(); ++i) EXPECT_EQ(matcher.Feed(text[i]), 0) << i;
  EXPECT_EQ(matcher.held_bytes(), 3);  // "aba"
  StopMatcher fork = matcher;
  EXPECT_EQ(matcher.Feed('b'), 4);
  EXPECT_EQ(fork.Feed('c'), 4);
}

TEST(StopMatcher, PrefersTheLongestOfThoseThatEndTogether) {
  const StopStrings strings({"b", "aab"});
  StopMatcher matcher(strings);
  matcher.Feed('a');
  matcher.Feed('a');
  EXPECT_EQ(matcher.Feed('b'), 3);
}

// However the text is cut into tokens, the same text comes out and the same stop is found.
TEST(SequenceText, DoesNotDependOnTheSplit) {
  Random random(TestSeed());
  const std::vector<std::string> letters = {"a", "b", "c", "\u00e9", " "};
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = random.Int(1, 12); i > 0; --i) text += letters[random.Int(0, 4)];
    std::vector<std::string> stops;
    for (int i = random.Int(1, 3); i > 0; --i) {
      std::string& stop = stops.emplace_back();
      for (int k = random.Int(1, 3); k > 0; --k) stop += letters[random.Int(0, 4)];
    }
    std::vector<std::string> answers;
    for (int split = 0; split < 4; ++split) {
      std::vector<std::string> pieces;
      for (size_t begin = 0; begin < text.size();) {
        pieces.push_back(text.substr(begin, split == 0 ? text.size() : random.Int(1, 4)));
        begin += pieces.back().size();
      }
      const ToyTokenizer tokenizer(pieces, {});
      const StopStrings strings(stops);
      SequenceText sequence(tokenizer, strings, {.include_stop = round % 2 == 0});
      std::string taken;
      for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
        const bool stopped = sequence.Append(id);
        taken += sequence.TakeCertain();
        if (stopped) break;
      }
      sequence.Finish();
      answers.push_back(taken + sequence.TakeCertain());
      ASSERT_EQ(answers[split], answers[0]) << text;
      ASSERT_TRUE(answers[split] == text || text.starts_with(answers[split]));
    }
  }
}

TEST(SequenceText, HoldsBackOnlyWhatMayBecomeAStop) {
  const ToyTokenizer tokenizer({"one ", "st", "op", "ay"}, {});
  const StopStrings strings({"stop"});
  SequenceText text(tokenizer, strings, {});
  EXPECT_FALSE(text.Append(0));
  EXPECT_EQ(text.TakeCertain(), "one ");
  EXPECT_FALSE(text.Append(1));
  EXPECT_EQ(text.TakeCertain(), "");
  SequenceText fork = text.Clone();
  EXPECT_FALSE(fork.Append(3));
  EXPECT_EQ(fork.TakeCertain(), "stay");
  EXPECT_TRUE(text.Append(2));
  text.Finish();
  EXPECT_EQ(text.TakeCertain(), "");
}

}  // namespace
}  // namespace beamline::sequence_text_test
