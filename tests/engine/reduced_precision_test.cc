// The demo models in float16 and bfloat16 against the float32 golden files.
//
// No logit of the golden answers may be further from float32's than transformers' own is in the
// type (tests/golden/reduced_precision.json), which both types are forced through here on the same
// device. Another token may be chosen only where the choice was as good as open: where the gap
// between float32's two best candidates is below that error.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "fmt/format.h"
#include "tests/engine/chrf.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/transformer/model_runner.h"
#include "tests/golden/golden_rows.h"

namespace beamline::reduced_precision_test {
namespace {

using nlohmann::json;

// How much more an embedding may err than transformers' own of the type, as 1 - cosine, which grows
// with the square of the error. Two embeddings of the type may err in opposite directions.
constexpr double kCosineFactor = 2;
constexpr double kAloneCosineFactor = 4 * kCosineFactor;
constexpr int kAloneEvery = 4;  // of so many inputs one is also computed alone
constexpr int32_t kWhole = 1 << 20;

double MinChrf(DType dtype) { return dtype == DType::kFloat16 ? 98 : 95; }

// Greedy answers of a golden file.
struct GreedyTask {
  const char* model;
  const char* file;
  std::optional<int32_t> banned;  // by generation_config.json
  GenerateRequest (*request)(const json& row);
};

const GreedyTask kTranslate = {"translate-en-de", "translate.jsonl", 7999, [](const json& row) {
                                 return Translate(row["text"], GreedyOptions());
                               }};
const GreedyTask kWrite = {"write-en", "write.jsonl", std::nullopt, [](const json& row) {
                             GenerateRequest request = Write(row["text"], 48);
                             request.output.skip_special_tokens = false;
                             return request;
                           }};

// For each row the logits from which each of its golden ids is chosen.
struct ForcedLogits {
  absl::Status status;
  std::vector<Matrix> rows;  // [ids, vocab_size]
};

ForcedLogits Force(const GreedyTask& task, DType dtype) {
  auto runner = ModelRunner::Open(Demo(task.model).folder, dtype);
  if (!runner.ok()) return {runner.status(), {}};
  const bool has_encoder = (*runner)->description().spec.encoder.has_value();
  ForcedLogits forced;
  for (const json& row : GoldenRows(task.file)) {
    RunnerSequence sequence;
    const auto input = row["input_ids"].get<TokenIds>();
    const auto answer = row["greedy_ids"].get<TokenIds>();
    if (has_encoder) {
      sequence.source = input;
      sequence.tokens = {(*runner)->description().generation.decoder_start_token_id};
      (*runner)->EncodeMemory({&sequence, 1});
    } else {
      sequence.tokens = input;
    }
    const size_t first = sequence.tokens.size() - 1;
    sequence.tokens.insert(sequence.tokens.end(), answer.begin(), answer.end() - 1);
    while ((*runner)->Step({&sequence, 1}, kWhole)) {
    }
    Matrix& logits = sequence.logits;
    logits.values.erase(logits.values.begin(),
                        logits.values.begin() + static_cast<std::ptrdiff_t>(first * logits.width));
    if (task.banned.has_value()) {
      for (int64_t i = 0; i < logits.num_rows(); ++i) {
        logits.values[i * logits.width + *task.banned] = -1e30f;
      }
    }
    forced.rows.push_back(std::move(logits));
  }
  return forced;
}

const ForcedLogits& Float32Logits(const GreedyTask& task) {
  static std::map<std::string, ForcedLogits> forced;
  auto found = forced.find(task.model);
  if (found == forced.end()) {
    found = forced.emplace(task.model, Force(task, DType::kFloat32)).first;
  }
  return found->second;
}

// What transformers itself finds of a model in this type.
double Reference(const std::string& model, DType dtype, const char* field) {
  static const json golden = GoldenFile("reduced_precision.json");
  return golden.at(model).at(Name(dtype)).at(field).get<double>();
}

double LargestDifference(const std::vector<Matrix>& a, const std::vector<Matrix>& b) {
  double largest = 0;
  BEAMLINE_CHECK(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    BEAMLINE_CHECK(a[i].values.size() == b[i].values.size());
    for (size_t j = 0; j < a[i].values.size(); ++j) {
      const double difference = std::abs(a[i].values[j] - b[i].values[j]);
      if (!(difference <= largest)) largest = difference;  // NaN, too
    }
  }
  return largest;
}

double GapOfTwoBest(std::span<const float> logits) {
  std::vector<float> sorted(logits.begin(), logits.end());
  std::partial_sort(sorted.begin(), sorted.begin() + 2, sorted.end(), std::greater<>());
  return sorted[0] - sorted[1];
}

size_t FirstDifference(const TokenIds& a, const TokenIds& b) {
  const auto [end, unused] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  return static_cast<size_t>(end - a.begin());
}

class ReducedPrecisionTest : public ::testing::TestWithParam<DType> {
 protected:
  // Null when the device does not compute in the type.
  static Engine* EngineOf(DType dtype) {
    static std::map<DType, std::unique_ptr<Engine>> engines;
    if (!engines.contains(dtype)) {
      auto engine = MakeDemoEngine(dtype);
      if (!engine.ok()) {
        EXPECT_EQ(engine.status().code(), absl::StatusCode::kUnimplemented) << engine.status();
      }
      engines[dtype] = engine.ok() ? *std::move(engine) : nullptr;
    }
    return engines[dtype].get();
  }

  void SetUp() override {
    engine_ = EngineOf(GetParam());
    if (engine_ == nullptr) {
      GTEST_SKIP() << TestDevice() << " does not compute in " << Name(GetParam());
    }
  }

  void Print(const std::string& name, double value) {
    RecordProperty(name, fmt::format("{:.6g}", value));
    std::printf("%s %s = %.6g\n", Name(GetParam()), name.c_str(), value);
  }

  // `ids` leave the golden ids of row `i` at most where float32's choice is open within `error`,
  // the most that a logit may err. Returns whether they leave them.
  bool ExpectAllowed(const GreedyTask& task, const json& row, size_t i, const TokenIds& ids,
                     double error) {
    const auto golden = row["greedy_ids"].get<TokenIds>();
    const size_t place = FirstDifference(golden, ids);
    if (place == golden.size() && place == ids.size()) return false;
    EXPECT_LT(place, std::min(golden.size(), ids.size())) << row["text"];
    if (place >= std::min(golden.size(), ids.size())) return true;
    const auto logits = Float32Logits(task).rows[i].row(static_cast<int64_t>(place));
    const double gap = GapOfTwoBest(logits);
    std::printf("%s %s row %zu leaves at token %zu: float32 gap %.5f, logit error %.5f\n",
                Name(GetParam()), task.model, i, place, gap, error);
    EXPECT_LT(gap, error) << row["text"];
    EXPECT_LT(logits[golden[place]] - logits[ids[place]], 2 * error) << row["text"];
    widest_gap_ = std::max(widest_gap_, gap);
    return true;
  }

  void CheckGreedy(const GreedyTask& task);
  void CheckAlone(const GreedyTask& task, const json& row, size_t i,
                  const GeneratedSequence& batched, double error);

  Engine* engine_ = nullptr;
  double widest_gap_ = 0;        // of the rows that leave the golden ids
  double alone_difference_ = 0;  // largest, of a log-probability alone and batched
};

// The answer alone: the same rule, and up to where it leaves the batched answer the same
// log-probabilities. Each is within `error` of the truth and normalised by as much.
void ReducedPrecisionTest::CheckAlone(const GreedyTask& task, const json& row, size_t i,
                                      const GeneratedSequence& batched, double error) {
  GenerateRequest request = task.request(row);
  request.output.return_logprobs = true;
  const auto alone = engine_->GenerateAndWait(request);
  ASSERT_TRUE(alone.ok()) << alone.status();
  const GeneratedSequence& sequence = alone->sequences[0];
  ExpectAllowed(task, row, i, sequence.ids, error);
  for (size_t p = 0; p < FirstDifference(sequence.ids, batched.ids); ++p) {
    const double difference =
        std::abs(sequence.logprobs[p].chosen.logprob - batched.logprobs[p].chosen.logprob);
    EXPECT_LT(difference, 2 * error) << row["text"];
    alone_difference_ = std::max(alone_difference_, difference);
  }
}

void ReducedPrecisionTest::CheckGreedy(const GreedyTask& task) {
  const ForcedLogits& exact = Float32Logits(task);
  ASSERT_TRUE(exact.status.ok()) << exact.status;
  const ForcedLogits forced = Force(task, GetParam());
  ASSERT_TRUE(forced.status.ok()) << forced.status;
  const double found_error = LargestDifference(exact.rows, forced.rows);
  const double error = Reference(task.model, GetParam(), "logit_error");
  Print("logit_error", found_error);
  EXPECT_GT(found_error, 0);
  EXPECT_LE(found_error, error);

  const std::vector<json> rows = GoldenRows(task.file);
  std::vector<GenerateRequest> requests;
  for (const json& row : rows) {
    requests.push_back(task.request(row));
    requests.back().output.return_logprobs = true;
  }
  const auto together = RunTogether(requests, *engine_);
  std::vector<std::string> texts, golden_texts;
  int left = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(together[i].ok()) << together[i].status();
    const GeneratedSequence& sequence = together[i]->sequences[0];
    left += ExpectAllowed(task, rows[i], i, sequence.ids, error) ? 1 : 0;
    if (i % kAloneEvery == 0) CheckAlone(task, rows[i], i, sequence, error);
    texts.push_back(sequence.text);
    golden_texts.push_back(rows[i]["greedy_text"]);
  }
  const double chrf = CorpusChrf(texts, golden_texts);
  Print("rows", static_cast<double>(rows.size()));
  Print("rows_that_leave", left);
  Print("widest_gap_left", widest_gap_);
  Print("alone_logprob_difference", alone_difference_);
  Print("chrf", chrf);
  EXPECT_GE(chrf, MinChrf(GetParam()));
}

TEST_P(ReducedPrecisionTest, TranslateGreedy) { CheckGreedy(kTranslate); }

TEST_P(ReducedPrecisionTest, WriteGreedy) { CheckGreedy(kWrite); }

TEST_P(ReducedPrecisionTest, TranslateBeams) {
  const std::vector<json> rows = GoldenRows("translate.jsonl");
  std::vector<GenerateRequest> requests;
  for (const json& row : rows) {
    requests.push_back(Translate(row["text"], BeamOptions{.width = 4}));
  }
  const auto results = RunTogether(requests, *engine_);
  std::vector<std::string> texts, golden_texts;
  int same = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    same += results[i]->sequences[0].ids == rows[i]["beam4"][0]["ids"].get<TokenIds>() ? 1 : 0;
    texts.push_back(results[i]->sequences[0].text);
    golden_texts.push_back(rows[i]["beam4_text"]);
  }
  Print("rows", static_cast<double>(rows.size()));
  Print("rows_the_same", same);
  const double chrf = CorpusChrf(texts, golden_texts);
  Print("chrf", chrf);
  EXPECT_GE(chrf, MinChrf(GetParam()));
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  double product = 0, a_squares = 0, b_squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    product += static_cast<double>(a[i]) * b[i];
    a_squares += static_cast<double>(a[i]) * a[i];
    b_squares += static_cast<double>(b[i]) * b[i];
  }
  return product / std::sqrt(a_squares * b_squares);
}

TEST_P(ReducedPrecisionTest, Embeddings) {
  const std::vector<json> rows = GoldenRows("embed.jsonl");
  EncodeRequest together;
  together.model = "embed-en";
  together.truncate = EncodeTruncation::kRight;
  for (const json& row : rows) together.inputs.emplace_back(row["text"].get<std::string>());
  const auto result = engine_->EncodeAndWait(together);
  ASSERT_TRUE(result.ok()) << result.status();
  double golden_cosine = 1, alone_cosine = 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    EncodeRequest alone = together;
    alone.inputs = {together.inputs[i]};
    const auto one = engine_->EncodeAndWait(alone);
    ASSERT_TRUE(one.ok()) << one.status();
    const auto golden = rows[i]["embedding"].get<std::vector<float>>();
    ASSERT_EQ(result->embeddings[i].values.size(), golden.size());
    golden_cosine = std::min(golden_cosine, Cosine(result->embeddings[i].values, golden));
    alone_cosine =
        std::min(alone_cosine, Cosine(result->embeddings[i].values, one->embeddings[0].values));
  }
  Print("golden_cosine", golden_cosine);
  Print("alone_cosine", alone_cosine);
  const double error = 1 - Reference("embed-en", GetParam(), "min_cosine");
  EXPECT_GE(golden_cosine, 1 - kCosineFactor * error);
  EXPECT_GE(alone_cosine, 1 - kAloneCosineFactor * error);
}

INSTANTIATE_TEST_SUITE_P(Types, ReducedPrecisionTest,
                         ::testing::Values(DType::kFloat16, DType::kBFloat16),
                         [](const auto& type) { return std::string(Name(type.param)); });

}  // namespace
}  // namespace beamline::reduced_precision_test
