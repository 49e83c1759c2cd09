#include "loadtest/workload/prompts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <string>

namespace beamline::loadtest::prompts_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::vector<std::string>> Read(const std::string& content) {
  const std::string path = testing::TempDir() + "texts_" + std::to_string(getpid()) + ".jsonl";
  std::ofstream(path) << content;
  auto texts = ReadTexts(path);
  unlink(path.c_str());
  return texts;
}

TEST(Prompts, AreTheTextsOfAFile) {
  EXPECT_THAT(*Read("{\"text\": \"a\"}\n\n{\"id\": 3, \"text\": \"b\\nc\"}\n{\"text\": \"\"}"),
              ElementsAre("a", "b\nc"));
  for (const char* wrong : {"{\"text\": \"a\"}\nx\n", "{\"text\": \"a\"}\n{\"texts\": \"b\"}\n",
                            "{\"text\": \"a\"}\n{\"text\": 5}\n", "{\"text\": \"a\"}\n[]\n"}) {
    EXPECT_THAT(std::string(Read(wrong).status().message()),
                HasSubstr(".jsonl:2: expected an object with a text in \"text\""));
  }
  EXPECT_THAT(std::string(Read("{\"text\": \"\"}\n").status().message()),
              HasSubstr("holds no text"));
}

TEST(Prompts, OfWordsBeginWithTheSharedOnes) {
  PromptSource source;
  source.words = Distribution::Parse("3").value();
  source.num_shared = 4;
  Random random(1);
  std::set<std::string> beginnings, endings;
  for (int i = 0; i < 50; ++i) {
    const std::string text = DrawPrompt(source, 0, random, Random(7)).text();
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 6) << text;
    size_t place = 0;
    for (int word = 0; word < 4; ++word) place = text.find(' ', place) + 1;
    beginnings.insert(text.substr(0, place));
    endings.insert(text.substr(place));
  }
  EXPECT_EQ(beginnings.size(), 1U);
  EXPECT_GT(endings.size(), 40U);
}

TEST(Prompts, OfTokensLeaveTheEndsOfTheVocabularyOut) {
  PromptSource source;
  source.tokens = Distribution::Parse("100").value();
  source.num_shared = 5;
  Random random(1);
  for (int i = 0; i < 20; ++i) {
    const v1::Prompt prompt = DrawPrompt(source, 160, random, Random(7));
    ASSERT_EQ(prompt.ids().ids_size(), 105);
    for (const int32_t id : prompt.ids().ids()) {
      EXPECT_GE(id, 10);
      EXPECT_LE(id, 149);
    }
  }
  EXPECT_EQ(DrawPrompt(source, 1, random, Random(7)).ids().ids(0), 0);
}

TEST(Prompts, OfTextsAreAllOfThemInTheEnd) {
  PromptSource source;
  source.texts = {"one", "two", "three"};
  Random random(1);
  std::set<std::string> seen;
  for (int i = 0; i < 100; ++i) seen.insert(DrawPrompt(source, 0, random, Random(7)).text());
  EXPECT_THAT(seen, ElementsAre("one", "three", "two"));
  source.num_shared = 1;
  EXPECT_THAT(DrawPrompt(source, 0, random, Random(7)).text(), HasSubstr(" "));
}

}  // namespace
}  // namespace beamline::loadtest::prompts_test
