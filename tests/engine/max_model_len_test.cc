// Models whose sequences are shorter than their checkpoints' positions (max_model_len): the answers
// are those of the whole (tests/golden/random), the cache is smaller, and what is longer is refused
// by the setting's name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "tests/engine/random_model.h"
#include "tests/golden/golden_rows.h"

namespace beamline::max_model_len_test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

constexpr int32_t kPositions = 64;  // of every checkpoint here
constexpr int32_t kShorter = 42;    // a prompt of 18 tokens and an answer of 24

ModelOptions Limited(const LinkedModel& model, int32_t max_model_len, int64_t cache_bytes = 1) {
  ModelOptions options = model.Options("model");
  options.max_model_len = max_model_len;
  options.cache_bytes = cache_bytes;  // the least there is
  return options;
}

GenerateRequest Greedy(TokenIds prompt, std::optional<int32_t> max_new_tokens) {
  GenerateRequest request;
  request.model = "model";
  request.prompt = std::move(prompt);
  request.decoding = GreedyOptions();
  request.limits.max_new_tokens = max_new_tokens;
  return request;
}

std::string Refusal(const GenerateRequest& request, Engine& engine) {
  const auto sink = std::make_shared<RecordingSink>();
  const auto handle = engine.Generate(request, sink);
  return std::string((handle.ok() ? sink->Wait().status() : handle.status()).message());
}

class MaxModelLenTest : public ::testing::TestWithParam<const char*> {};

TEST_P(MaxModelLenTest, AnswersAreTheReferences) {
  const std::string folder = std::string("random/") + GetParam();
  const RandomStack model(GetParam(), 61, /*with_template=*/false);
  const auto engine = Serve({Limited(model, kShorter)});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const ModelInfo info = *(*engine)->FindModel("model");
  EXPECT_EQ(info.max_total_tokens, kShorter);
  EXPECT_EQ(info.max_input_tokens, kShorter - 1);
  EXPECT_EQ(info.cache_blocks, 4);  // 42 positions in blocks of 16, and one more
  int32_t compared = 0;
  const json rows = GoldenFile(folder + "/expected.json")["rows"];
  for (const json& row : rows) {
    const auto prompt = row["input_ids"].get<TokenIds>();
    const auto max_new_tokens = row["max_new_tokens"].get<int32_t>();
    if (static_cast<int32_t>(prompt.size()) + max_new_tokens > kShorter) continue;
    const auto results = RunTogether({Greedy(prompt, max_new_tokens)}, **engine);
    ASSERT_TRUE(results[0].ok()) << results[0].status();
    EXPECT_EQ(results[0]->sequences[0].ids, row["greedy"]["ids"].get<TokenIds>());
    ++compared;
  }
  EXPECT_EQ(compared, 4);
}

// Learned positions, and angles that depend on the checkpoint's own positions.
INSTANTIATE_TEST_SUITE_P(Decoders, MaxModelLenTest,
                         ::testing::Values("gpt2-3x40", "llama-6of2x10-llama3",
                                           "mistral-4of2x6-dynamic", "qwen3-6of3x10-yarn"));

TEST(MaxModelLen, LongerRequestsOfAGeneratorAreRefusedByItsName) {
  const RandomStack model("gpt2-3x40", 131, /*with_template=*/false);
  const auto engine = Serve({Limited(model, 10)});
  ASSERT_TRUE(engine.ok()) << engine.status();
  EXPECT_EQ(Refusal(Greedy(TokenIds(10, 5), 1), **engine),
            "prompt has 10 tokens; accepted: at most 9 (max_model_len is 10)");
  EXPECT_EQ(Refusal(Greedy(TokenIds(4, 5), 7), **engine),
            "limits.max_new_tokens is 7; accepted: 1 to 6 after a prompt of 4 tokens (10 "
            "positions, by max_model_len)");
  EXPECT_EQ(Refusal(Greedy(TokenIds(4, 5), 11), **engine),
            "limits.max_new_tokens is 11; accepted: 1 to 10, by max_model_len");
  // Without a length an answer ends where the positions do.
  GenerateRequest open = Greedy(TokenIds(4, 5), std::nullopt);
  open.limits.ignore_eos = true;
  const auto results = RunTogether({open}, **engine);
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  EXPECT_EQ(results[0]->sequences[0].ids.size(), 6u);
}

TEST(MaxModelLen, ATranslatorsSourceAndAnswerAreAsLong) {
  const RandomTranslator model("marian-3x40", 131, 131);
  const auto engine = Serve({Limited(model, 20)});
  ASSERT_TRUE(engine.ok()) << engine.status();
  const ModelInfo info = *(*engine)->FindModel("model");
  EXPECT_EQ(info.max_input_tokens, 20);
  EXPECT_EQ(info.max_total_tokens, 20);
  EXPECT_EQ(info.cache_blocks % 2, 1);  // of the source 2, of a sequence 3
  EXPECT_THAT(Refusal(Greedy(TokenIds(21, 5), 5), **engine),
              HasSubstr("prompt has 21 tokens; accepted: at most 20 (max_model_len is 20)"));
  const json row = GoldenFile("random/marian-3x40/expected.json")["rows"][3];
  const auto results = RunTogether({Greedy(row["input_ids"].get<TokenIds>(), 19)}, **engine);
  ASSERT_TRUE(results[0].ok()) << results[0].status();
  auto expected = row["greedy"]["ids"].get<TokenIds>();
  const TokenIds& found = results[0]->sequences[0].ids;
  if (expected.size() > 19) {  // cut, where the end is forced
    expected.resize(18);
    EXPECT_EQ(TokenIds(found.begin(), found.begin() + 18), expected);
  } else {
    EXPECT_EQ(found, expected);
  }
}

TEST(MaxModelLen, AnEncodersInputIsRefusedOrCut) {
  const RandomStack model("bert-3x40", 131, /*with_template=*/true);
  const auto limited = Serve({Limited(model, 12)});
  const auto whole = Serve({Limited(model, 0)});
  ASSERT_TRUE(limited.ok() && whole.ok()) << limited.status();
  EXPECT_EQ((*limited)->FindModel("model")->max_input_tokens, 12);
  EXPECT_EQ((*whole)->FindModel("model")->max_input_tokens, kPositions);
  const auto encode = [](Engine& engine, size_t size, EncodeTruncation truncate) {
    EncodeRequest request;
    request.model = "model";
    request.inputs = {TokenIds(size, 7)};
    request.truncate = truncate;
    const auto sink = std::make_shared<RecordingEncodeSink>();
    const auto handle = engine.Encode(request, sink);
    return handle.ok() ? sink->Wait() : absl::StatusOr<EncodeResult>(handle.status());
  };
  EXPECT_EQ(encode(**limited, 13, EncodeTruncation::kNone).status().message(),
            "inputs[0] has 13 tokens; accepted: at most 12 (max_model_len is 12); set truncate to "
            "cut it");
  const auto cut = encode(**limited, 13, EncodeTruncation::kRight);
  const auto short_one = encode(**whole, 12, EncodeTruncation::kNone);
  ASSERT_TRUE(cut.ok() && short_one.ok()) << cut.status() << short_one.status();
  EXPECT_EQ(cut->embeddings[0].values, short_one->embeddings[0].values);
}

TEST(MaxModelLen, IsAtMostTheCheckpointsPositions) {
  const RandomStack decoder("gpt2-3x40", 131, /*with_template=*/false);
  const RandomStack encoder("roberta-3x16", 89, /*with_template=*/true);
  EXPECT_TRUE(Serve({Limited(decoder, kPositions)}).ok());
  for (const LinkedModel* model :
       {static_cast<const LinkedModel*>(&decoder), static_cast<const LinkedModel*>(&encoder)}) {
    for (const int32_t refused : {1, kPositions + 1}) {
      EXPECT_EQ(Serve({Limited(*model, refused)}).status().message(),
                "model 'model': max_model_len is " + std::to_string(refused) +
                    "; accepted: 0, or 2 to 64, the checkpoint's positions");
    }
  }
}

}  // namespace
}  // namespace beamline::max_model_len_test
