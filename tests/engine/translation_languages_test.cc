// Translators between many languages: a request's languages become the tokens that transformers
// puts in their places.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "tests/engine/random_model.h"

namespace beamline::translation_languages_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int32_t kVocabSize = 101, kGerman = 90, kEnglish = 91;

// NLLB's kind of tokenizer over letters.
class LanguagesTest : public ::testing::Test {
 protected:
  LanguagesTest() : model_("tests/golden/random/m2m_100-5x7") {
    nlohmann::json vocab = {{"<s>", 0}, {"<pad>", 1}, {"</s>", 2}, {"<unk>", 3}, {"▁", 4}};
    for (int32_t id = 5; id < kVocabSize; ++id) {
      vocab[id < 31 ? std::string(1, static_cast<char>('a' + id - 5)) : "w" + std::to_string(id)] =
          id;
    }
    vocab.erase("w90");
    vocab.erase("w91");
    vocab["deu_Latn"] = kGerman;
    vocab["eng_Latn"] = kEnglish;
    model_.Write("tokenizer.json", {{"model",
                                     {{"type", "BPE"},
                                      {"vocab", vocab},
                                      {"merges", nlohmann::json::array()},
                                      {"unk_token", "<unk>"}}}});
    model_.Write("tokenizer_config.json", {{"tokenizer_class", "NllbTokenizer"}});
    auto engine = Serve({model_.Options("model")});
    if (engine.ok()) engine_ = *std::move(engine);
    EXPECT_TRUE(engine.ok()) << engine.status();
  }

  static GenerateRequest Translate(Prompt prompt) {
    GenerateRequest request;
    request.model = "model";
    request.prompt = std::move(prompt);
    request.limits.max_new_tokens = 6;
    request.limits.ignore_eos = true;
    return request;
  }
  TokenIds Answer(const GenerateRequest& request) {
    const auto result = engine_->GenerateAndWait(request);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->sequences[0].ids : TokenIds();
  }
  std::string Error(const std::function<void(GenerateRequest&)>& edit) {
    GenerateRequest request = Translate("abc");
    edit(request);
    return std::string(engine_->GenerateAndWait(request).status().message());
  }

  LinkedModel model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(LanguagesTest, TheSourcesStandsBeforeTheText) {
  EXPECT_THAT(engine_->FindModel("model")->languages, ElementsAre("deu_Latn", "eng_Latn"));
  const TokenIds ids = {4, 5, 6, 7, 2};
  for (const auto& [language, code] : {std::pair("", kEnglish), std::pair("deu_Latn", kGerman)}) {
    GenerateRequest request = Translate("abc");
    request.source_language = language;
    TokenIds given = ids;
    given.insert(given.begin(), code);
    EXPECT_EQ(Answer(request), Answer(Translate(given))) << language;
  }
}

TEST_F(LanguagesTest, TheTargetsIsTheFirstToken) {
  for (const int32_t beams : {1, 3}) {
    GenerateRequest request = Translate("abc");
    request.decoding = BeamOptions{.width = beams, .num_sequences = beams};
    request.target_language = "deu_Latn";
    const auto result = engine_->GenerateAndWait(request);
    ASSERT_TRUE(result.ok()) << result.status();
    for (const GeneratedSequence& sequence : result->sequences) {
      ASSERT_EQ(sequence.ids.size(), 6u);
      EXPECT_EQ(sequence.ids[0], kGerman);
    }
  }
  // In front of a prefix it is a part of what is given.
  GenerateRequest request = Translate("abc");
  request.target_language = "deu_Latn";
  request.target_prefix = TokenIds{9};
  GenerateRequest given = Translate("abc");
  given.target_prefix = TokenIds{kGerman, 9};
  EXPECT_EQ(Answer(request), Answer(given));
}

TEST_F(LanguagesTest, ContinuationsAreOfTheTargets) {
  ScoreRequest texts;
  texts.model = "model";
  texts.prompt = "abc";
  texts.target_language = "deu_Latn";
  texts.continuations = {"ab"};
  ScoreRequest ids = texts;
  ids.target_language = "";
  ids.continuations = {TokenIds{kGerman, 4, 5, 6, 2}};
  const auto of_texts = engine_->ScoreAndWait(texts), of_ids = engine_->ScoreAndWait(ids);
  ASSERT_TRUE(of_texts.ok() && of_ids.ok()) << of_texts.status() << of_ids.status();
  EXPECT_EQ(of_texts->scores[0].num_tokens, 5);
  EXPECT_EQ(of_texts->scores[0].logprob, of_ids->scores[0].logprob);
}

TEST_F(LanguagesTest, OthersAreNamed) {
  EXPECT_EQ(Error([](auto& r) { r.target_language = "deu"; }),
            "target_language is 'deu'; accepted: deu_Latn, eng_Latn");
  EXPECT_THAT(Error([](auto& r) { r.source_language = std::string(5000, 'e'); }),
              HasSubstr("accepted: eng_Latn, deu_Latn"));
  EXPECT_THAT(Error([](auto& r) {
                r.target_language = "deu_Latn";
                r.shaping.suppress_tokens = {kGerman};
              }),
              HasSubstr("target_language is 90; accepted: ids that suppress_tokens"));
}

}  // namespace
}  // namespace beamline::translation_languages_test
