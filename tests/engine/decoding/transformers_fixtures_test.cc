// The very hypotheses and scores of transformers' generate(), case by case
// (tools/make_decoding_fixtures.py, tools/make_diverse_beam_fixtures.py).
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/decoding/group_decoder.h"
#include "tests/engine/decoding/toy_loop.h"
#include "tests/engine/decoding/toy_tokenizer.h"

namespace beamline::transformers_fixtures_test {
namespace {

using nlohmann::json;

ToyModel TableModel(const json& model) {
  const auto table = [&](const char* name) {
    auto rows = model.at(name).get<std::vector<std::vector<float>>>();
    for (auto& row : rows) {
      for (float& value : row) value /= model.at("scale").get<float>();
    }
    return rows;
  };
  return [last = table("last"), before = table("before"),
          position = table("position")](std::span<const int32_t> history) {
    const size_t size = history.size();
    std::vector<float> logits = last[history[size - 1]];
    for (size_t id = 0; id < logits.size(); ++id) {
      logits[id] += position[size - 1][id];
      if (size > 1) logits[id] += before[history[size - 2]][id];
    }
    return logits;
  };
}

EarlyStopping ParseEarlyStopping(const json& value) {
  if (value.is_string()) return EarlyStopping::kExhaustive;
  return value.get<bool>() ? EarlyStopping::kEager : EarlyStopping::kHeuristic;
}

ResolvedDecoding ParseCase(const json& options, int32_t vocab_size) {
  ResolvedDecoding decoding;
  decoding.vocab_size = vocab_size;
  decoding.beam_width = options.at("num_beams");
  decoding.kind = decoding.beam_width > 1 ? DecodingKind::kBeam : DecodingKind::kGreedy;
  decoding.num_sequences = options.at("num_return_sequences");
  decoding.max_new_tokens = options.at("max_new_tokens");
  decoding.min_new_tokens = options.value("min_new_tokens", 0);
  decoding.eos_token_ids = options.at("eos").get<TokenIds>();
  decoding.all_eos_token_ids = decoding.eos_token_ids;
  decoding.stop_token_ids = options.value("stop_ids", TokenIds{});
  decoding.stop = options.value("stop_strings", std::vector<std::string>{});
  decoding.length_penalty = options.value("length_penalty", 1.0f);
  decoding.early_stopping = ParseEarlyStopping(options.value("early_stopping", json(false)));
  decoding.repetition_penalty = options.value("repetition_penalty", 1.0f);
  decoding.no_repeat_ngram_size = options.value("no_repeat_ngram_size", 0);
  decoding.bad_words = options.value("bad_words", std::vector<TokenIds>{});
  decoding.suppress_tokens = options.value("suppress_tokens", TokenIds{});
  decoding.forced_bos = options.value("forced_bos", -1);
  decoding.forced_eos = options.value("forced_eos", -1);
  decoding.num_beam_groups = options.value("num_beam_groups", 1);
  decoding.diversity_penalty = options.value("diversity_penalty", 0.0f);
  decoding.pad_token_id = options.value("pad", -1);
  return decoding;
}

struct CaseCounts {
  int all = 0;
  int beams = 0;
};

// Every case of a file has the ids and scores that it tells.
CaseCounts CheckCases(const std::string& name) {
  CaseCounts counts;
  std::ifstream file(BEAMLINE_SOURCE_DIR "/tests/engine/decoding/" + name);
  const json fixtures = json::parse(file);
  for (const json& model : fixtures.at("models")) {
    const ToyModel table = TableModel(model);
    const ToyTokenizer tokenizer(model.at("pieces").get<std::vector<std::string>>(), {0, 1, 2});
    for (const json& options : model.at("cases")) {
      SCOPED_TRACE(options.dump());
      const ResolvedDecoding decoding = ParseCase(options, model.at("vocab_size"));
      const auto prompt = options.at("prompt").get<TokenIds>();
      const auto decoder = GroupDecoder::Create(decoding, prompt, tokenizer, counts.all % 2 == 0);
      const ToyRun run = RunGroup(*decoder, table, prompt);

      const auto expected = options.at("ids").get<std::vector<TokenIds>>();
      EXPECT_EQ(run.sequences.size(), expected.size());
      for (size_t i = 0; i < expected.size() && !testing::Test::HasFailure(); ++i) {
        TokenIds ids = run.sequences[i].ids;
        // In the group search of transformers the first end token stands for all of them.
        if (decoding.num_beam_groups > 1 && run.sequences[i].finish_reason == FinishReason::kEos) {
          ids.back() = decoding.eos_token_ids.front();
        }
        EXPECT_EQ(ids, expected[i]) << "sequence " << i;
        if (!options.contains("scores")) continue;
        // Both sides add float32 scores: their last bits grow with the sum.
        const auto score = options["scores"][i].get<float>();
        EXPECT_NEAR(run.sequences[i].score, score, 1e-4 + 1e-6 * std::abs(score))
            << "sequence " << i;
      }
      ++counts.all;
      if (decoding.kind == DecodingKind::kBeam) ++counts.beams;
      if (testing::Test::HasFailure()) return counts;
    }
  }
  return counts;
}

TEST(TransformersFixtures, EveryCaseHasTheSameHypothesesAndScores) {
  const CaseCounts counts = CheckCases("decoding_fixtures.json");
  EXPECT_GE(counts.all, 500);
  EXPECT_GE(counts.beams, 400);
}

TEST(TransformersFixtures, EveryGroupSearchHasTheSameHypothesesAndScores) {
  EXPECT_GE(CheckCases("diverse_beam_fixtures.json").beams, 160);
}

}  // namespace
}  // namespace beamline::transformers_fixtures_test
