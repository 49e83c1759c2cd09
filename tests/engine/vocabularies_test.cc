// Translators whose two sides have vocabularies of their own, with either side the larger one
// (their answers: random_decoders_test.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/engine/random_model.h"

namespace beamline::vocabularies_test {
namespace {

using testing::HasSubstr;

GenerateRequest TranslateIds(TokenIds ids) {
  GenerateRequest request;
  request.model = "model";
  request.prompt = std::move(ids);
  request.limits.max_new_tokens = 4;
  return request;
}

// The status of each request that the case makes of a valid one.
std::string Message(Engine& engine, const std::function<void(GenerateRequest&)>& edit) {
  GenerateRequest request = TranslateIds({5});
  edit(request);
  const auto result = engine.GenerateAndWait(request);
  return result.ok() ? "OK" : std::string(result.status().message());
}

void ExpectTargetIds(Engine& engine, int32_t vocab_size) {
  const int32_t last = vocab_size - 1;
  const auto range = [&](const std::string& text) {
    return text + " " + std::to_string(vocab_size) + "; accepted: 0 to " + std::to_string(last);
  };
  const std::vector<std::pair<std::string, std::function<void(GenerateRequest&, int32_t)>>> cases =
      {
          {"target_prefix.ids[0] is", [](auto& r, int32_t id) { r.target_prefix = TokenIds{id}; }},
          {"limits.stop_token_ids[0] is",
           [](auto& r, int32_t id) { r.limits.stop_token_ids = {id}; }},
          {"shaping.suppress_tokens[0] is",
           [](auto& r, int32_t id) { r.shaping.suppress_tokens = {id}; }},
          {"shaping.bad_words[0][0] is",
           [](auto& r, int32_t id) { r.shaping.bad_words = {TokenIds{id}}; }},
          {"shaping.logit_bias has the id",
           [](auto& r, int32_t id) {
             r.shaping.logit_bias = {{id, 1}};
           }},
          {"shaping.forced_eos is", [](auto& r, int32_t id) { r.shaping.forced_eos = id; }},
      };
  for (const auto& [text, edit] : cases) {
    EXPECT_EQ(Message(engine, [&](auto& r) { edit(r, last); }), "OK") << text;
    EXPECT_EQ(Message(engine, [&](auto& r) { edit(r, vocab_size); }), range(text));
  }
  ScoreRequest score;
  score.model = "model";
  score.prompt = TokenIds{5};
  score.continuations = {TokenIds{last}};
  EXPECT_TRUE(engine.ScoreAndWait(score).ok());
  score.continuations = {TokenIds{vocab_size}};
  EXPECT_EQ(engine.ScoreAndWait(score).status().message(), range("continuations[0].ids[0] is"));
}

void ExpectSourceIds(Engine& engine, int32_t vocab_size) {
  const std::string range = "prompt.ids[0] is " + std::to_string(vocab_size) + "; accepted: 0 to " +
                            std::to_string(vocab_size - 1);
  EXPECT_TRUE(engine.GenerateAndWait(TranslateIds({vocab_size - 1})).ok());
  EXPECT_EQ(engine.GenerateAndWait(TranslateIds({vocab_size})).status().message(), range);
  ScoreRequest score;
  score.model = "model";
  score.prompt = TokenIds{vocab_size};
  score.continuations = {TokenIds{5}};
  EXPECT_EQ(engine.ScoreAndWait(score).status().message(), range);
}

TEST(VocabulariesTest, TargetVocabularyIsLarger) {
  const RandomTranslator model("marian-2x16-target", 61, 97, /*late_id=*/80);
  const auto engine = Serve({model.Options("model")});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const ModelInfo info = (*engine)->Models()[0];
  EXPECT_EQ(info.vocab_size, 97);
  EXPECT_EQ(info.input_vocab_size, 61);
  EXPECT_EQ(info.tokenizer_vocab_size, 97);
  ExpectSourceIds(**engine, 61);
  ExpectTargetIds(**engine, 97);
  EXPECT_EQ(Message(**engine, [](auto& r) { r.prompt = "the <late>"; }),
            "prompt.text has the token \"<late>\" of id 80 at byte 4; accepted: ids 0 to 60");
  EXPECT_EQ(Message(**engine, [](auto& r) { r.target_prefix = "<late>"; }), "OK");
}

TEST(VocabulariesTest, SourceVocabularyIsLarger) {
  const RandomTranslator model("marian-5x8-deep", 97, 83, /*late_id=*/90);
  const auto engine = Serve({model.Options("model")});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ((*engine)->Models()[0].vocab_size, 83);
  EXPECT_EQ((*engine)->Models()[0].input_vocab_size, 97);
  ExpectSourceIds(**engine, 97);
  ExpectTargetIds(**engine, 83);
  EXPECT_EQ(Message(**engine, [](auto& r) { r.prompt = "the <late>"; }), "OK");
  EXPECT_EQ(
      Message(**engine, [](auto& r) { r.target_prefix = "<late>"; }),
      "target_prefix.text has the token \"<late>\" of id 90 at byte 0; accepted: ids 0 to 82");
}

TEST(VocabulariesTest, TokenizersThatAreLargerThanTheirSideAreRefused) {
  const RandomTranslator source("marian-2x16-target", 62, 97);
  EXPECT_THAT(Serve({source.Options("model")}).status().message(),
              HasSubstr("config.json: vocab_size is 61; at least 62 is expected"));
  const RandomTranslator target("marian-2x16-target", 61, 98);
  EXPECT_THAT(Serve({target.Options("model")}).status().message(),
              HasSubstr("config.json: decoder_vocab_size is 97; at least 98 is expected"));
}

// Empty sources and prompts of Generate: tests/golden/generation_config.jsonl.
TEST(VocabulariesTest, AnEmptyPromptIsScoredFromTheBeginToken) {
  ScoreRequest request;
  request.model = "write-en";
  request.prompt = "";
  request.continuations = {"Package: vim"};
  const auto empty = SharedEngine().ScoreAndWait(request);
  request.prompt = TokenIds{5999};
  const auto begin = SharedEngine().ScoreAndWait(request);
  ASSERT_TRUE(empty.ok() && begin.ok()) << empty.status();
  EXPECT_EQ(empty->scores[0].logprob, begin->scores[0].logprob);
  EXPECT_EQ(empty->usage.prompt_tokens, 1);
  request.model = "translate-en-de";
  request.prompt = "";
  request.continuations = {"", TokenIds{0}};
  const auto end = SharedEngine().ScoreAndWait(request);
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_NEAR(end->scores[0].logprob, end->scores[1].logprob, 1e-5);
}

}  // namespace
}  // namespace beamline::vocabularies_test
