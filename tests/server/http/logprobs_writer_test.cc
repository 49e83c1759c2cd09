// What log-probabilities call their tokens: of byte-level and SentencePiece vocabularies, with
// parts of characters, spaces in front and letters that have a byte of their own.
#include "server/http/logprobs_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/http/token_texts.h"

namespace beamline::logprobs_writer_test {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::shared_ptr<const Tokenizer> Fixture(const std::string& name) {
  auto loaded = LoadTokenizer(BEAMLINE_SOURCE_DIR "/tests/engine/text/fixtures/" + name);
  EXPECT_TRUE(loaded.ok()) << loaded.status();
  return *std::move(loaded);
}

int32_t IdOf(const Tokenizer& tokenizer, const std::string& spelling) {
  const auto id = tokenizer.TokenId(spelling);
  EXPECT_TRUE(id.has_value()) << spelling;
  return id.value_or(0);
}

// The chosen first; log-probabilities -1, -2 and so on.
v1::PositionLogprobs Position(const std::vector<int32_t>& ids) {
  v1::PositionLogprobs position;
  float logprob = 0;
  for (const int32_t id : ids) {
    v1::TokenLogprob& one = *position.add_top();
    one.set_id(id);
    one.set_logprob(logprob -= 1);
  }
  *position.mutable_chosen() = position.top(0);
  return position;
}

TEST(TokenTexts, KeepTheSpaceInFront) {
  const auto llama = Fixture("llama2");
  const TokenTexts pieces(llama);
  EXPECT_EQ(pieces.NameOf(IdOf(*llama, "▁ser")), " ser");
  EXPECT_EQ(pieces.NameOf(IdOf(*llama, "ser")), "ser");
  EXPECT_EQ(pieces.NameOf(IdOf(*llama, "▁")), " ");
  EXPECT_EQ(pieces.NameOf(IdOf(*llama, "<s>")), "<s>");
  EXPECT_FALSE(pieces.BytesOf(IdOf(*llama, "<s>")).has_value());
  const auto bytes = Fixture("llama3");
  const TokenTexts level(bytes);
  EXPECT_EQ(level.NameOf(IdOf(*bytes, "Ġand")), " and");
  EXPECT_EQ(level.NameOf(IdOf(*bytes, "and")), "and");
  const auto words = Fixture("wordpiece");
  const TokenTexts marked(words);
  EXPECT_EQ(marked.NameOf(IdOf(*words, "##all")), "all");
  EXPECT_EQ(marked.NameOf(IdOf(*words, "all")), " all");
}

TEST(TokenTexts, TellPartsOfCharactersByTheirBytes) {
  const auto llama = Fixture("llama2");
  const TokenTexts pieces(llama);
  EXPECT_EQ(pieces.NameOf(IdOf(*llama, "<0xE2>")), "bytes:\\xe2");
  EXPECT_EQ(pieces.ChatNameOf(IdOf(*llama, "<0xE2>"), "\xe2"), "\\xe2");
  EXPECT_EQ(pieces.BytesOf(IdOf(*llama, "<0xE2>")), "\xe2");
  EXPECT_EQ(pieces.NameOf(IdOf(*llama, "<0x0A>")), "\n");
  const auto bytes = Fixture("llama3");
  const TokenTexts level(bytes);
  EXPECT_EQ(level.NameOf(IdOf(*bytes, "â")), "bytes:\\xe2");
  EXPECT_EQ(level.BytesOf(IdOf(*bytes, "Ĥ")), "\x82");
}

// The bytes of all tokens of a text are the text, whatever the vocabulary.
TEST(TokenTexts, TogetherAreTheText) {
  const std::string text = "the price is 5 € or 5 \xf0\x9f\x98\x80\nthe end";
  for (const char* name : {"llama2", "llama3", "qwen2", "gemma", "gpt_neox"}) {
    const auto tokenizer = Fixture(name);
    const TokenTexts texts(tokenizer);
    const auto tokens = tokenizer->Encode(text, {.add_special_tokens = false});
    ASSERT_TRUE(tokens.ok());
    std::string joined;
    for (const Token& token : *tokens) joined += texts.BytesOf(token.id).value_or("?");
    if (joined.starts_with(' ')) joined.erase(0, 1);  // the normalizer's
    EXPECT_EQ(joined, text) << name;
  }
}

TEST(CompletionLogprobs, KeepEveryCandidate) {
  const auto tokenizer = Fixture("llama2");
  const auto writer = MakeCompletionLogprobs(std::make_shared<TokenTexts>(tokenizer), true);
  writer->Add(Position({IdOf(*tokenizer, "▁ser"), IdOf(*tokenizer, "ser"), IdOf(*tokenizer, "a"),
                        IdOf(*tokenizer, "<0x61>"), IdOf(*tokenizer, "<0xE2>"),
                        IdOf(*tokenizer, "<0x82>")}));
  EXPECT_EQ(json(writer->Take()), json::parse(R"({
      "tokens": [" ser"], "token_logprobs": [-1.0], "text_offset": [0],
      "top_logprobs": [{" ser": -1.0, "ser": -2.0, "a": -3.0, "bytes:\\x61": -4.0,
                        "bytes:\\xe2": -5.0, "bytes:\\x82": -6.0}]})"));
}

// The text ends with U+FFFD then, and the tokens with the bytes that it stands for.
TEST(CompletionLogprobs, AgreeWithATextThatEndsWithinACharacter) {
  const auto tokenizer = Fixture("llama2");
  const auto writer = MakeCompletionLogprobs(std::make_shared<TokenTexts>(tokenizer), true);
  std::vector<int32_t> ids;
  for (const char* piece : {"▁ser", "<0xE2>", "<0x82>"}) {
    ids.push_back(IdOf(*tokenizer, piece));
    writer->Add(Position({ids.back()}));
  }
  EXPECT_EQ(*tokenizer->Decode(ids, true), "ser\uFFFD\uFFFD");
  const ordered_json logprobs = writer->Take();
  EXPECT_EQ(json(logprobs["tokens"]), json::parse(R"([" ser", "bytes:\\xe2", "bytes:\\x82"])"));
  EXPECT_EQ(json(logprobs["text_offset"]), json::parse("[0, 3, 3]"));
  // A character that comes as parts counts once.
  for (const char* piece : {"<0xAC>", "a"}) writer->Add(Position({IdOf(*tokenizer, piece)}));
  EXPECT_EQ(json(writer->Take()["text_offset"]), json::parse("[3, 3]"));
}

TEST(ChatLogprobs, TellBytesAndCandidates) {
  const auto tokenizer = Fixture("llama2");
  const auto writer = MakeChatLogprobs(std::make_shared<TokenTexts>(tokenizer));
  writer->Add(Position({IdOf(*tokenizer, "<0xE2>"), IdOf(*tokenizer, "</s>")}));
  EXPECT_EQ(json(writer->Take()), json::parse(R"({"refusal": null, "content": [
      {"token": "\\xe2", "logprob": -1.0, "bytes": [226], "top_logprobs": [
        {"token": "\\xe2", "logprob": -1.0, "bytes": [226]},
        {"token": "</s>", "logprob": -2.0, "bytes": null}]}]})"));
  EXPECT_EQ(json(writer->Take()["content"]), json::array());
}

}  // namespace
}  // namespace beamline::logprobs_writer_test
