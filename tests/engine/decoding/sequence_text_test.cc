#include "engine/decoding/sequence_text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/decoding/stop_matcher.h"
#include "engine/decoding/text_alignment.h"
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

// Ids 0 and 1 are special.
ToyTokenizer SpecialTokenizer() {
  return ToyTokenizer({"<end>", "<pad>", "a", "b", "end", "\xC3", "\xA9", "<", ">"}, {0, 1});
}

struct Told {
  std::vector<std::string> pieces;  // certain with each token
  std::string text;
  bool stopped = false;
};

Told Tell(const std::vector<std::string>& stops, const std::vector<int32_t>& ids,
          const TextOptions& options = {}) {
  const ToyTokenizer tokenizer = SpecialTokenizer();
  const StopStrings strings(stops);
  SequenceText text(tokenizer, strings, options);
  Told told;
  for (const int32_t id : ids) {
    told.stopped = text.Append(id);
    told.text += told.pieces.emplace_back(text.TakeCertain());
    if (told.stopped) break;
  }
  text.Finish();
  told.text += text.TakeCertain();
  return told;
}

TEST(SequenceText, AStopMayNameAHiddenToken) {
  for (const bool include_stop : {false, true}) {
    const Told told = Tell({"<end>"}, {2, 3, 0, 2}, {.include_stop = include_stop});
    EXPECT_TRUE(told.stopped);
    EXPECT_EQ(told.text, "ab");
    EXPECT_EQ(told.pieces, (std::vector<std::string>{"a", "b", ""}));
  }
  const Told shown = Tell({"<end>"}, {2, 0}, {.skip_special_tokens = false, .include_stop = true});
  EXPECT_EQ(shown.text, "a<end>");
  // Other tokens that spell it are a stop too, as in transformers.
  EXPECT_TRUE(Tell({"<end>"}, {7, 4, 8}).stopped);
}

TEST(SequenceText, AStopMayBeHiddenInPart) {
  // What is shown of it waits for the rest, and goes with it.
  Told told = Tell({"b<end>"}, {2, 3, 0, 2});
  EXPECT_TRUE(told.stopped);
  EXPECT_EQ(told.text, "a");
  EXPECT_EQ(told.pieces, (std::vector<std::string>{"a", "", ""}));
  told = Tell({"b<end>"}, {2, 3, 0, 2}, {.include_stop = true});
  EXPECT_EQ(told.text, "ab");
  told = Tell({"b<end>"}, {2, 3, 1, 2});
  EXPECT_FALSE(told.stopped);
  EXPECT_EQ(told.text, "aba");
  EXPECT_EQ(told.pieces, (std::vector<std::string>{"a", "", "b", "a"}));

  told = Tell({"<end>ab"}, {2, 0, 2, 3, 2});
  EXPECT_TRUE(told.stopped);
  EXPECT_EQ(told.text, "a");
  EXPECT_EQ(told.pieces, (std::vector<std::string>{"a", "", "", ""}));
  told = Tell({"<end>ab"}, {2, 0, 2, 2});
  EXPECT_EQ(told.text, "aaa");
  told = Tell({"d>a"}, {3, 0, 2, 3}, {.include_stop = true});
  EXPECT_TRUE(told.stopped);
  EXPECT_EQ(told.text, "ba");
}

TEST(SequenceText, AHiddenTokenKeepsTextsApart) {
  const Told told = Tell({"ab"}, {2, 1, 3, 2});
  EXPECT_FALSE(told.stopped);
  EXPECT_EQ(told.text, "aba");
  EXPECT_EQ(told.pieces, (std::vector<std::string>{"", "a", "b", ""}));
  EXPECT_TRUE(Tell({"ab"}, {2, 1, 2, 3}).stopped);
}

TEST(SequenceText, AHiddenTokenBetweenHalvesOfACharacter) {
  EXPECT_EQ(Tell({"x"}, {2, 5, 1, 6, 3}).text, "a\u00e9b");
  // As Decode ends what comes before the stop.
  EXPECT_EQ(Tell({"<pad>"}, {2, 5, 1, 6}).text, "a\uFFFD");
  EXPECT_EQ(Tell({"b"}, {2, 5, 1, 6, 2, 3}).text, "a\u00e9a");
}

// Long texts with many hidden tokens take memory for the last few alone, and places stay right.
TEST(SequenceText, ManyHiddenTokens) {
  std::vector<int32_t> ids;
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    ids.insert(ids.end(), {i % 7 == 0 ? 4 : 2, 1});
    expected += i % 7 == 0 ? "end" : "a";
  }
  ids.insert(ids.end(), {2, 3, 0});
  const std::string pads = "<pad>a<pad>a<pad>a<pad>";
  EXPECT_EQ(Tell({pads + "ab<end>", std::string(256, 'x')}, ids).text,
            expected.substr(0, expected.size() - 3));
}

TEST(SequenceText, TokensThatMayNotStop) {
  const ToyTokenizer tokenizer = SpecialTokenizer();
  const StopStrings strings({"aba"});
  SequenceText text(tokenizer, strings, {});
  for (const int32_t id : {2, 3, 2}) EXPECT_FALSE(text.Append(id, /*may_stop=*/false));
  EXPECT_EQ(text.TakeCertain(), "ab");
  EXPECT_FALSE(text.Append(3));
  EXPECT_TRUE(text.Append(2));
  text.Finish();
  EXPECT_EQ(text.TakeCertain(), "");
}

TEST(TextAlignment, FindsPlacesInTextsThatDiffer) {
  TextAlignment alignment(100);
  alignment.Append("ab", "ab");
  alignment.Append("<x>", "");
  // The decoder drops a space behind the token where it is shown.
  alignment.Append("cd", " cd");
  EXPECT_EQ(alignment.full_size(), 7);
  std::vector<size_t> places;
  for (size_t place = 0; place <= 7; ++place) places.push_back(alignment.VisibleAt(place));
  EXPECT_EQ(places, (std::vector<size_t>{0, 1, 2, 2, 2, 2, 4, 5}));
  // Text that one of them has earlier.
  alignment.Append("", "ef");
  EXPECT_EQ(alignment.VisibleAt(7), 5);
  alignment.Append("efg", "g");
  EXPECT_EQ(alignment.VisibleAt(9), 7);
  EXPECT_EQ(alignment.VisibleAt(10), 8);
  // Characters that share bytes.
  alignment.Append("\u00e9!", "\u00e8!");
  EXPECT_EQ(alignment.VisibleAt(10), 8);
  EXPECT_EQ(alignment.VisibleAt(12), 8);
  EXPECT_EQ(alignment.VisibleAt(13), 11);
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
