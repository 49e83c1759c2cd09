// Inputs that are longer than a step, whatever is asked of them: the answers are those of one step,
// and no step is larger than max_batch_tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/demo_engine.h"
#include "tests/engine/long_models.h"
#include "tests/sanitized.h"

namespace beamline::long_inputs_test {
namespace {

std::unique_ptr<Engine> ServeWith(const LinkedModel& model, int32_t max_batch_tokens,
                                  EngineObserver* observer = nullptr, int32_t max_sequences = 16) {
  EngineOptions options = TestEngineOptions();
  options.models = {OptionsOf(model, max_batch_tokens, max_sequences)};
  auto engine = Engine::Create(options, observer);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

void ExpectSame(const absl::StatusOr<EncodeResult>& found,
                const absl::StatusOr<EncodeResult>& expected, float tolerance) {
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_EQ(found->embeddings.size(), expected->embeddings.size());
  EXPECT_EQ(found->usage.prompt_tokens, expected->usage.prompt_tokens);
  for (size_t i = 0; i < found->embeddings.size(); ++i) {
    const Embedding &a = found->embeddings[i], &b = expected->embeddings[i];
    EXPECT_EQ(a.num_tokens, b.num_tokens);
    EXPECT_EQ(a.num_vectors, b.num_vectors);
    EXPECT_THAT(a.values, testing::Pointwise(testing::FloatNear(tolerance), b.values)) << i;
  }
}

float ToleranceOf(Engine& engine) { return BatchTolerance(engine.Models()[0].device, 2e-4f); }

const std::vector<int32_t> kStepTokens =
    kSanitized ? std::vector<int32_t>{64} : std::vector<int32_t>{16, 64, 500};

TEST(LongInputsTest, EmbeddingsAreThoseOfOneStep) {
  Ids ids;
  const std::pair<const char*, int32_t> models[] = {{"qwen3-6of2x6-embed", 283},
                                                    {"llama-4of1x6-embed", 67},
                                                    {"mistral-4of2x8-embed", 89},
                                                    {"qwen2-3of1x8-embed", 71}};
  for (const auto& [name, vocab_size] : models) {
    SCOPED_TRACE(name);
    const LongEmbedder model(name, vocab_size);
    const auto whole = ServeWith(model, kLongPositions);
    ASSERT_NE(whole, nullptr);
    for (const int32_t of_step : kStepTokens) {
      SCOPED_TRACE(of_step);
      StepObserver observer;
      auto engine = ServeWith(model, of_step, &observer);
      ASSERT_NE(engine, nullptr);
      EncodeRequest request;
      request.model = "model";
      request.inputs = {ids.Any(40), ids.Any(5), ids.Any(of_step + 1), ids.Any(kLongPositions),
                        ids.Any(of_step)};
      int64_t tokens = 0;
      const auto compare = [&] {
        const auto found = engine->EncodeAndWait(request);
        ExpectSame(found, whole->EncodeAndWait(request), ToleranceOf(*engine));
        if (found.ok()) tokens += found->usage.prompt_tokens;
      };
      compare();
      for (const Pooling pooling : {Pooling::kMean, Pooling::kCls, Pooling::kLast, Pooling::kMax}) {
        request.pooling = pooling;
        request.normalize = pooling != Pooling::kMax;
        compare();
      }
      request.dimensions = 7;
      compare();
      request.dimensions.reset();
      request.pooling.reset();
      request.inputs.resize(3);
      request.per_token = true;
      compare();
      request.per_token = false;
      request.inputs = {ids.Text(3 * of_step), ids.Text(3)};
      compare();
      engine.reset();  // every step has been reported then
      EXPECT_EQ(observer.tokens(), tokens);
      EXPECT_LE(observer.largest(), of_step);
    }
  }
}

TEST(LongInputsTest, ClassesAreThoseOfOneStep) {
  Ids ids;
  const std::pair<const char*, const char*> models[] = {
      {"llama-4of2x6", "max_position_embeddings"},
      {"mistral-4of2x6-rank", "max_position_embeddings"},
      {"bloom-3x8", "seq_length"},
      {"falcon-3x8-alibi-rank", "max_position_embeddings"},
      {"gemma2-4of2x6-rank", "max_position_embeddings"},
      {"qwen3_moe-4of2x6-rank", "max_position_embeddings"}};
  for (const auto& [name, positions] : models) {
    SCOPED_TRACE(name);
    const LongModel model(name, positions);
    const auto whole = ServeWith(model, kLongPositions);
    ASSERT_NE(whole, nullptr);
    for (const int32_t of_step : kStepTokens) {
      SCOPED_TRACE(of_step);
      StepObserver observer;
      auto engine = ServeWith(model, of_step, &observer);
      ASSERT_NE(engine, nullptr);
      ClassifyRequest request;
      request.model = "model";
      request.function = ScoreFunction::kNone;
      request.inputs = {ids.Any(40), ids.Any(kLongPositions), ids.Any(2 * of_step + 3), ids.Any(7)};
      ExpectSame(engine->ClassifyAndWait(request), whole->ClassifyAndWait(request),
                 ToleranceOf(*engine));
      if (engine->Models()[0].reranks) {
        request.query = ids.Text(20);
        request.inputs = {ids.Text(9), ids.Text(of_step), ids.Text(kLongPositions / 3)};
        ExpectSame(engine->ClassifyAndWait(request), whole->ClassifyAndWait(request),
                   ToleranceOf(*engine));
      }
      engine.reset();
      EXPECT_LE(observer.largest(), of_step);
    }
  }
}

TEST(LongInputsTest, ClassesOfTokensAreThoseOfOneStep) {
  Ids ids;
  for (const char* const name : {"qwen3-4of2x6-tokens", "gemma-4of2x6-tokens"}) {
    SCOPED_TRACE(name);
    const LongModel model(name, "max_position_embeddings");
    const auto whole = ServeWith(model, kLongPositions);
    ASSERT_NE(whole, nullptr);
    for (const int32_t of_step : kStepTokens) {
      StepObserver observer;
      auto engine = ServeWith(model, of_step, &observer);
      ASSERT_NE(engine, nullptr);
      ClassifyTokensRequest request;
      request.model = "model";
      request.inputs = {ids.Text(9), ids.Text(kLongPositions / 2), ids.Text(of_step)};
      const auto found = engine->ClassifyTokensAndWait(request);
      ExpectSame(found, whole->ClassifyTokensAndWait(request), ToleranceOf(*engine));
      ASSERT_TRUE(found.ok());
      EXPECT_EQ(found->embeddings[1].num_vectors, found->embeddings[1].num_tokens);
      engine.reset();
      EXPECT_LE(observer.largest(), of_step);
    }
  }
}

// Models that look both ways have each input in one step, and no more than that.
TEST(LongInputsTest, EncodersThatLookBothWaysHaveTheirInputsInOneStep) {
  const RandomStack model("bert-3x40", 100, /*with_template=*/false);
  StepObserver observer;
  auto engine = ServeWith(model, 16, &observer);
  ASSERT_NE(engine, nullptr);
  EncodeRequest request;
  request.model = "model";
  request.inputs = {TokenIds(64, 7), TokenIds(20, 8)};
  EXPECT_TRUE(engine->EncodeAndWait(request).ok());
  engine.reset();
  EXPECT_EQ(observer.largest(), 64);
}

}  // namespace
}  // namespace beamline::long_inputs_test
