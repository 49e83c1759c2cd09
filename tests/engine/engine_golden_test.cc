// The demo models' golden answers through the engine, alone and together.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/demo_engine.h"
#include "tests/golden/golden_rows.h"

namespace beamline::engine_golden_test {
namespace {

using nlohmann::json;

float BatchToleranceHere(float otherwise) {
  return BatchTolerance(SharedEngine().Models()[0].device, otherwise);
}

TEST(EngineGoldenTest, GreedyAloneAndTogether) {
  const std::vector<json> rows = GoldenRows("translate.jsonl");
  std::vector<GenerateRequest> requests;
  for (const json& row : rows) requests.push_back(Translate(row["text"], GreedyOptions()));
  const auto together = RunTogether(requests);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(together[i].ok()) << together[i].status();
    EXPECT_EQ(together[i]->sequences[0].ids, rows[i]["greedy_ids"].get<TokenIds>())
        << rows[i]["text"];
    EXPECT_EQ(together[i]->sequences[0].text, rows[i]["greedy_text"].get<std::string>());
    if (i % 10 != 0) continue;
    const auto alone = SharedEngine().GenerateAndWait(requests[i]);
    ASSERT_TRUE(alone.ok()) << alone.status();
    EXPECT_EQ(alone->sequences[0].ids, together[i]->sequences[0].ids);
    EXPECT_NEAR(alone->sequences[0].cumulative_logprob,
                together[i]->sequences[0].cumulative_logprob, BatchToleranceHere(1e-3f));
  }
}

void ExpectBeams(const GenerateResult& result, const json& hypotheses, const json& text) {
  ASSERT_EQ(result.sequences.size(), hypotheses.size());
  for (size_t h = 0; h < hypotheses.size(); ++h) {
    EXPECT_EQ(result.sequences[h].ids, hypotheses[h]["ids"].get<TokenIds>()) << text << " " << h;
    EXPECT_NEAR(result.sequences[h].score, hypotheses[h]["score"].get<double>(), 1e-3) << text;
  }
}

TEST(EngineGoldenTest, BeamSearchFindsTheSameHypotheses) {
  const std::vector<json> rows = GoldenRows("translate.jsonl");
  std::vector<GenerateRequest> requests;
  for (const json& row : rows) {
    requests.push_back(Translate(row["text"], BeamOptions{.width = 4, .num_sequences = 4}));
  }
  const auto results = RunTogether(requests);
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    ExpectBeams(*results[i], rows[i]["beam4"], rows[i]["text"]);
    EXPECT_EQ(results[i]->sequences[0].text, rows[i]["beam4_text"].get<std::string>());
  }
}

TEST(EngineGoldenTest, BeamSearchVariants) {
  int checked = 0;
  for (const json& row : GoldenRows("translate.jsonl")) {
    if (!row.contains("extra")) continue;
    for (const auto& [name, expected] : row["extra"].items()) {
      BeamOptions beam = {.width = 4, .num_sequences = static_cast<int32_t>(expected.size())};
      GenerateRequest request = Translate(row["text"], GreedyOptions());
      if (name == "length_penalty_0.6") beam.length_penalty = 0.6f;
      if (name == "length_penalty_2.0") beam.length_penalty = 2.0f;
      if (name == "num_beams_8") beam.width = 8;
      if (name == "no_repeat_ngram_size_3") request.shaping.no_repeat_ngram_size = 3;
      request.decoding = beam;
      const auto result = SharedEngine().GenerateAndWait(request);
      ASSERT_TRUE(result.ok()) << result.status();
      ExpectBeams(*result, expected, row["text"].get<std::string>() + " " + name);
      ++checked;
    }
  }
  EXPECT_EQ(checked, 40);
}

TEST(EngineGoldenTest, WriteGreedyWithLogprobs) {
  int num_penalised = 0, num_beams = 0;
  for (const json& row : GoldenRows("write.jsonl")) {
    GenerateRequest request = Write(row["text"], 48);
    request.output.return_logprobs = true;
    request.output.logprobs = 5;
    request.output.skip_special_tokens = false;
    const auto result = SharedEngine().GenerateAndWait(request);
    ASSERT_TRUE(result.ok()) << result.status();
    const GeneratedSequence& sequence = result->sequences[0];
    EXPECT_EQ(sequence.ids, row["greedy_ids"].get<TokenIds>());
    EXPECT_EQ(sequence.text, row["greedy_text"].get<std::string>());
    ASSERT_EQ(sequence.logprobs.size(), sequence.ids.size());
    for (size_t i = 0; i < sequence.ids.size(); ++i) {
      EXPECT_NEAR(sequence.logprobs[i].chosen.logprob, row["greedy_logprobs"][i].get<double>(),
                  1e-3);
    }
    ASSERT_EQ(sequence.logprobs[0].top.size(), 5u);
    for (size_t k = 0; k < 5; ++k) {
      EXPECT_EQ(sequence.logprobs[0].top[k].id, row["first_top5"][k]["id"].get<int32_t>());
      EXPECT_NEAR(sequence.logprobs[0].top[k].logprob,
                  row["first_top5"][k]["logprob"].get<double>(), 1e-3);
    }
    if (row.contains("beam4")) {
      GenerateRequest search = Write(row["text"], 48);
      search.decoding = BeamOptions{.width = 4, .num_sequences = 4};
      const auto beams = SharedEngine().GenerateAndWait(search);
      ASSERT_TRUE(beams.ok()) << beams.status();
      ExpectBeams(*beams, row["beam4"], row["text"]);
      ++num_beams;
    }
    if (row.contains("repetition_penalty_1.3_ids")) {
      request.shaping.repetition_penalty = 1.3f;
      const auto penalised = SharedEngine().GenerateAndWait(request);
      ASSERT_TRUE(penalised.ok()) << penalised.status();
      EXPECT_EQ(penalised->sequences[0].ids, row["repetition_penalty_1.3_ids"].get<TokenIds>());
      ++num_penalised;
    }
  }
  EXPECT_EQ(num_penalised, 5);
  EXPECT_EQ(num_beams, 5);
}

TEST(EngineGoldenTest, EmbeddingsAloneAndTogether) {
  const std::vector<json> rows = GoldenRows("embed.jsonl");
  EncodeRequest together;
  together.model = "embed-en";
  together.truncate = EncodeTruncation::kRight;
  for (const json& row : rows) together.inputs.emplace_back(row["text"].get<std::string>());
  const auto result = SharedEngine().EncodeAndWait(together);
  ASSERT_TRUE(result.ok()) << result.status();
  for (size_t i = 0; i < rows.size(); ++i) {
    EncodeRequest alone = together;
    alone.inputs = {together.inputs[i]};
    const auto one = SharedEngine().EncodeAndWait(alone);
    ASSERT_TRUE(one.ok()) << one.status();
    const auto expected = rows[i]["embedding"].get<std::vector<float>>();
    ASSERT_EQ(result->embeddings[i].values.size(), expected.size());
    for (size_t d = 0; d < expected.size(); ++d) {
      EXPECT_NEAR(result->embeddings[i].values[d], expected[d], 1e-4);
      EXPECT_NEAR(one->embeddings[0].values[d], result->embeddings[i].values[d],
                  BatchToleranceHere(1e-5f))
          << "row " << i;
    }
  }
}

}  // namespace
}  // namespace beamline::engine_golden_test
