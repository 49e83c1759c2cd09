// The demo models under other keys of generation_config.json, against transformers
// (tests/golden/generation_config.jsonl, written by tools/make_generation_config_golden.py).
#include <gtest/gtest.h>

#include <cmath>
#include <list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/engine/linked_model.h"
#include "tests/golden/golden_rows.h"

namespace beamline::generation_config_test {
namespace {

using nlohmann::json;

// The rows of one generation_config.json, in the file one behind the other.
struct Variant {
  explicit Variant(const json& row)
      : keys(row["generation_config"]), model_name(row["model"]), model("models/" + model_name) {
    model.Change("generation_config.json", keys);
  }
  const json keys;
  const std::string model_name;
  const LinkedModel model;
  std::vector<json> rows;
};

std::list<Variant> ReadVariants() {
  std::list<Variant> variants;
  for (const json& row : GoldenRows("generation_config.jsonl")) {
    const bool same = !variants.empty() && row["model"] == variants.back().model_name &&
                      variants.back().keys == row["generation_config"];
    if (!same) variants.emplace_back(row);
    variants.back().rows.push_back(row);
  }
  return variants;
}

void ExpectAnswer(const GenerateResult& result, const json& row) {
  SCOPED_TRACE(row.dump());
  const auto ids = row["ids"].get<std::vector<TokenIds>>();
  ASSERT_EQ(result.sequences.size(), ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    EXPECT_EQ(result.sequences[i].ids, ids[i]) << i;
    if (!row.contains("scores")) continue;
    EXPECT_NEAR(result.sequences[i].score, row["scores"][i].get<float>(), 1e-3f) << i;
  }
}

TEST(GenerationConfigTest, DecodesAsTransformersDoes) {
  const std::list<Variant> variants = ReadVariants();
  ASSERT_GE(variants.size(), 18u);
  size_t num_rows = 0;
  for (const Variant& variant : variants) {
    const auto engine = Serve({variant.model.Options("model")});
    ASSERT_TRUE(engine.ok()) << engine.status();
    // Together, so that a step holds several searches.
    std::vector<GenerateRequest> requests;
    for (const json& row : variant.rows) {
      GenerateRequest& request = requests.emplace_back();
      request.model = "model";
      request.prompt = row["text"].get<std::string>();
    }
    const auto results = RunTogether(requests, **engine);
    for (size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(results[i].ok()) << results[i].status();
      ExpectAnswer(*results[i], variant.rows[i]);
    }
    num_rows += results.size();
  }
  EXPECT_GE(num_rows, 80u);
}

// Rows that are normalised again and rows that are not, in the same steps.
TEST(GenerationConfigTest, RequestsOfOtherKindsBesideDoNotMatter) {
  const LinkedModel model("models/write-en");
  model.Change("generation_config.json", {{"renormalize_logits", true}});
  const auto engine = Serve({model.Options("model")});
  ASSERT_TRUE(engine.ok()) << engine.status();
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 12; ++i) {
    GenerateRequest request;
    request.model = "model";
    request.prompt = "Package: a" + std::to_string(i);
    request.limits.max_new_tokens = 16;
    if (i % 3 == 0) {
      request.decoding = BeamOptions{.width = 4, .num_sequences = 2};
      request.shaping.repetition_penalty = 1.3f;
    }
    if (i % 3 == 1) request.decoding = SamplingOptions{.seed = 3};
    requests.push_back(std::move(request));
  }
  const auto together = RunTogether(requests, **engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    const auto alone = (*engine)->GenerateAndWait(requests[i]);
    ASSERT_TRUE(alone.ok() && together[i].ok()) << alone.status();
    ASSERT_EQ(alone->sequences.size(), together[i]->sequences.size());
    for (size_t s = 0; s < alone->sequences.size(); ++s) {
      EXPECT_EQ(alone->sequences[s].ids, together[i]->sequences[s].ids) << i;
    }
  }
}

}  // namespace
}  // namespace beamline::generation_config_test
