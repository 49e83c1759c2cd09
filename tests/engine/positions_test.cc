// Requests at the last position of a model and behind it, of every kind of positions that there is:
// what fits is answered, what does not is refused with the field, the value and the range, and only
// who asks for that is cut.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "tests/engine/random_model.h"

namespace beamline::positions_test {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr int32_t kPrompt = 4;

struct Model {
  const char* name;
  int32_t vocab_size;
  int32_t max_model_len = 0;
};

void PrintTo(const Model& model, std::ostream* out) { *out << model.name; }

std::string NameOf(const testing::TestParamInfo<Model>& info) {
  std::string name = info.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

class PositionsTest : public ::testing::TestWithParam<Model> {
 protected:
  void Serve(const LinkedModel& model) {
    ModelOptions options = model.Options("model");
    options.max_model_len = GetParam().max_model_len;
    auto engine = beamline::Serve({options});
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = *std::move(engine);
    info_ = *engine_->FindModel("model");
  }

  static TokenIds Ids(int32_t size) { return TokenIds(static_cast<size_t>(size), 5); }

  absl::StatusOr<GenerateResult> Generate(int32_t prompt, int32_t max_new_tokens,
                                          std::optional<int32_t> target_prefix = {}) {
    GenerateRequest request;
    request.model = "model";
    request.prompt = Ids(prompt);
    request.decoding = GreedyOptions();
    request.limits.max_new_tokens = max_new_tokens;
    request.limits.ignore_eos = true;
    if (target_prefix.has_value()) request.target_prefix = Ids(*target_prefix);
    return engine_->GenerateAndWait(request);
  }
  absl::Status Score(int32_t prompt, int32_t continuation) {
    ScoreRequest request;
    request.model = "model";
    request.prompt = Ids(prompt);
    request.continuations = {Ids(continuation)};
    return engine_->ScoreAndWait(request).status();
  }
  absl::StatusOr<EncodeResult> Encode(TokenIds input, EncodeTruncation truncate) {
    EncodeRequest request;
    request.model = "model";
    request.inputs = {std::move(input)};
    request.truncate = truncate;
    return engine_->EncodeAndWait(request);
  }

  static void ExpectRefused(const absl::Status& status, const std::string& message) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), StartsWith(message));
  }

  std::unique_ptr<Engine> engine_;
  ModelInfo info_;
};

class GeneratorPositionsTest : public PositionsTest {
  void SetUp() override {
    Serve(RandomStack(GetParam().name, GetParam().vocab_size, /*with_template=*/false));
  }
};

TEST_P(GeneratorPositionsTest, OfAPromptAndItsAnswer) {
  const int32_t positions = info_.max_total_tokens;
  EXPECT_EQ(info_.max_input_tokens, positions - 1);
  EXPECT_TRUE(Generate(positions - 1, 1).ok());
  ExpectRefused(
      Generate(positions, 1).status(),
      fmt::format("prompt has {} tokens; accepted: at most {}", positions, positions - 1));
  const int32_t room = positions - kPrompt;
  const auto answer = Generate(kPrompt, room);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->sequences[0].ids.size(), static_cast<size_t>(room));
  ExpectRefused(Generate(kPrompt, room + 1).status(),
                fmt::format("limits.max_new_tokens is {}; accepted: 1 to {} after a prompt of 4 "
                            "tokens ({} positions",
                            room + 1, room, positions));
  ExpectRefused(
      Generate(kPrompt, positions + 1).status(),
      fmt::format("limits.max_new_tokens is {}; accepted: 1 to {}", positions + 1, positions));
}

TEST_P(GeneratorPositionsTest, OfAPromptAndItsContinuation) {
  const int32_t positions = info_.max_total_tokens, room = positions - kPrompt;
  EXPECT_TRUE(Score(kPrompt, room).ok());
  ExpectRefused(
      Score(kPrompt, room + 1),
      fmt::format("continuations[0] has {} tokens; accepted: at most {}", room + 1, room));
  EXPECT_TRUE(Score(positions - 1, 1).ok());
  ExpectRefused(Score(positions, 1), fmt::format("prompt has {} tokens; accepted: at most {}",
                                                 positions, positions - 1));
}

// Learned, rotary (of angles that end at the checkpoint's positions, too) and ALiBi.
INSTANTIATE_TEST_SUITE_P(
    Kinds, GeneratorPositionsTest,
    ::testing::Values(Model{"gpt2-3x40", 131}, Model{"opt-3x16", 97},
                      Model{"gpt_neo-3x16-local", 101}, Model{"llama-6of2x10-llama3", 97},
                      Model{"llama-3x8-linear", 71}, Model{"mistral-4of2x6-dynamic", 61},
                      Model{"mistral-4of2x8-window", 89}, Model{"qwen3-6of3x10-yarn", 93},
                      Model{"phi3-3x40-longrope", 71}, Model{"gptj-3x16", 97},
                      Model{"gemma3-4of2x10", 91}, Model{"bloom-5x8", 97}),
    NameOf);

class TranslatorPositionsTest : public PositionsTest {
  void SetUp() override {
    const int32_t size = GetParam().vocab_size;
    Serve(RandomTranslator(GetParam().name, size, size));
  }
};

TEST_P(TranslatorPositionsTest, OfASourceAndOfItsTarget) {
  const int32_t sources = info_.max_input_tokens, targets = info_.max_total_tokens;
  EXPECT_TRUE(Generate(sources, 1).ok());
  ExpectRefused(Generate(sources + 1, 1).status(),
                fmt::format("prompt has {} tokens; accepted: at most {}", sources + 1, sources));
  // The start token has the first position.
  const auto answer = Generate(kPrompt, targets - 1);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->sequences[0].ids.size(), static_cast<size_t>(targets - 1));
  ExpectRefused(
      Generate(kPrompt, targets).status(),
      fmt::format("limits.max_new_tokens is {}; accepted: 1 to {}", targets, targets - 1));
  const int32_t prefix = targets - 2;
  EXPECT_TRUE(Generate(kPrompt, 1, prefix).ok());
  ExpectRefused(
      Generate(kPrompt, 1, prefix + 1).status(),
      fmt::format("target_prefix has {} tokens; accepted: at most {}", prefix + 1, prefix));
  ExpectRefused(Generate(kPrompt, 2, prefix).status(),
                "limits.max_new_tokens is 2; accepted: 1 to 1 after a prompt of ");
}

TEST_P(TranslatorPositionsTest, OfAScoredTarget) {
  const int32_t sources = info_.max_input_tokens, room = info_.max_total_tokens - 1;
  EXPECT_TRUE(Score(sources, room).ok());
  ExpectRefused(
      Score(sources, room + 1),
      fmt::format("continuations[0] has {} tokens; accepted: at most {}", room + 1, room));
  ExpectRefused(Score(sources + 1, 1),
                fmt::format("prompt has {} tokens; accepted: at most {}", sources + 1, sources));
}

// Learned, of two kinds computed, and biases by distance.
INSTANTIATE_TEST_SUITE_P(Kinds, TranslatorPositionsTest,
                         ::testing::Values(Model{"bart-3x24", 131}, Model{"mbart-5x8", 89},
                                           Model{"marian-3x40", 131}, Model{"pegasus-3x12", 83},
                                           Model{"m2m_100-5x7", 101}, Model{"t5-3x40", 97},
                                           Model{"mt5-2x7", 71}),
                         NameOf);

class EncoderPositionsTest : public PositionsTest {
  void SetUp() override {
    Serve(RandomStack(GetParam().name, GetParam().vocab_size, /*with_template=*/true));
  }
};

TEST_P(EncoderPositionsTest, OfAnInputThatIsCutOnRequestAlone) {
  const int32_t positions = info_.max_input_tokens;
  TokenIds input = Ids(positions + 1);
  input.front() = 7;
  input.back() = 8;
  const auto whole = [&](ptrdiff_t begin) {
    return Encode(TokenIds(input.begin() + begin, input.begin() + begin + positions),
                  EncodeTruncation::kNone);
  };
  ExpectRefused(
      Encode(input, EncodeTruncation::kNone).status(),
      fmt::format("inputs[0] has {} tokens; accepted: at most {}", positions + 1, positions));
  for (const auto truncate : {EncodeTruncation::kRight, EncodeTruncation::kLeft}) {
    const auto cut = Encode(input, truncate);
    const auto expected = whole(truncate == EncodeTruncation::kRight ? 0 : 1);
    ASSERT_TRUE(cut.ok() && expected.ok()) << cut.status() << expected.status();
    EXPECT_EQ(cut->embeddings[0].values, expected->embeddings[0].values);
    EXPECT_EQ(cut->embeddings[0].num_tokens, positions);
  }
}

// Learned, behind an offset, without layers, besides biases by distance, rotary, and distances
// alone.
INSTANTIATE_TEST_SUITE_P(Kinds, EncoderPositionsTest,
                         ::testing::Values(Model{"bert-3x40", 131}, Model{"roberta-3x16", 89},
                                           Model{"electra-4x6-layerless", 67},
                                           Model{"mpnet-3x8", 73}, Model{"modernbert-3x8", 79},
                                           Model{"nomic_bert-3x8", 71},
                                           Model{"deberta-v2-3x8-buckets", 73},
                                           Model{"deberta-v2-5x6-conv", 73}),
                         NameOf);

// Classifiers of texts and of tokens, and masks: their checkpoints have tokenizers of their own.
class TextPositionsTest : public PositionsTest {
  void SetUp() override {
    Serve(LinkedModel(std::string("tests/golden/classifiers/") + GetParam().name));
  }
};

TEST_P(TextPositionsTest, OfATextThatIsCutOnRequestAlone) {
  std::string text;
  for (int32_t i = 0; i < info_.max_input_tokens; ++i) text += "the ";
  text += info_.mask_token;
  const auto ask = [&](EncodeTruncation truncate) -> absl::Status {
    if (!info_.mask_token.empty()) {
      FillMaskRequest request;
      request.model = "model";
      request.inputs = {text};
      request.truncate = truncate;
      return engine_->FillMaskAndWait(request).status();
    }
    if (info_.task == ModelTask::kClassifyTokens) {
      ClassifyTokensRequest request;
      request.model = "model";
      request.inputs = {text};
      request.truncate = truncate;
      return engine_->ClassifyTokensAndWait(request).status();
    }
    ClassifyRequest request;
    request.model = "model";
    request.inputs = {text};
    request.truncate = truncate;
    return engine_->ClassifyAndWait(request).status();
  };
  const absl::Status refused = ask(EncodeTruncation::kNone);
  ExpectRefused(refused, "inputs[0] has ");
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(fmt::format(" tokens; accepted: at most {}; set truncate to cut it",
                                    info_.max_input_tokens)));
  EXPECT_TRUE(ask(EncodeTruncation::kLeft).ok()) << ask(EncodeTruncation::kLeft);
}

INSTANTIATE_TEST_SUITE_P(Kinds, TextPositionsTest,
                         ::testing::Values(Model{"bert-3x8", 0}, Model{"modernbert-3x8-rank", 0},
                                           Model{"roberta-3x8-tokens", 0},
                                           Model{"bert-3x8-masks", 0}),
                         NameOf);

// Where only distances count, max_model_len may pass what the file says.
TEST(LongerPositionsTest, OfEncodersWithoutPositionsOfTheirOwn) {
  const RandomStack deberta("deberta-v2-3x8-buckets", 73, /*with_template=*/true);
  const RandomStack told("deberta-v2-3x8-buckets", 73, /*with_template=*/true);
  told.Change("config.json", {{"max_position_embeddings", 128}, {"max_relative_positions", 64}});
  EncodeRequest request;
  request.model = "model";
  request.inputs = {TokenIds(100, 5)};
  std::vector<std::vector<float>> answers;
  for (const RandomStack* model : {&deberta, &told}) {
    ModelOptions options = model->Options("model");
    options.max_model_len = 128;
    const auto engine = Serve({options});
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ((*engine)->FindModel("model")->max_input_tokens, 128);
    const auto answer = (*engine)->EncodeAndWait(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    answers.push_back(answer->embeddings[0].values);
  }
  EXPECT_EQ(answers[0], answers[1]);
}

TEST(LongerPositionsTest, OfModelsWithoutPositionsOfTheirOwn) {
  const RandomTranslator t5("t5-3x40", 97, 97);
  const RandomTranslator told("t5-3x40", 97, 97);
  told.Change("config.json", {{"n_positions", 128}});
  GenerateRequest request;
  request.model = "model";
  request.prompt = TokenIds(100, 5);
  request.decoding = GreedyOptions();
  request.limits.max_new_tokens = 90;
  request.limits.ignore_eos = true;
  std::vector<TokenIds> answers;
  for (const RandomTranslator* model : {&t5, &told}) {
    ModelOptions options = model->Options("model");
    options.max_model_len = 128;
    const auto engine = Serve({options});
    ASSERT_TRUE(engine.ok()) << engine.status();
    EXPECT_EQ((*engine)->FindModel("model")->max_input_tokens, 128);
    const auto answer = (*engine)->GenerateAndWait(request);
    ASSERT_TRUE(answer.ok()) << answer.status();
    answers.push_back(answer->sequences[0].ids);
  }
  EXPECT_EQ(answers[0], answers[1]);
  const RandomStack bloom("bloom-5x8", 97, /*with_template=*/false);
  ModelOptions options = bloom.Options("model");
  options.max_model_len = 1 << 14;
  EXPECT_TRUE(Serve({options}).ok());
  options.max_model_len = (1 << 14) + 1;
  EXPECT_EQ(Serve({options}).status().message(),
            "model 'model': max_model_len is 16385; accepted: 0, or 2 to 16384");
}

}  // namespace
}  // namespace beamline::positions_test
