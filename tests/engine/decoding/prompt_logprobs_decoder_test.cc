#include "engine/decoding/prompt_logprobs_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/engine/decoding/toy_loop.h"

namespace beamline::prompt_logprobs_decoder_test {
namespace {

// An inner group that takes one token and records what it was given.
class OneTokenDecoder final : public GroupDecoder {
 public:
  int32_t max_rows() const override { return 1; }
  std::span<const RowRequest> Requests() override { return {&request_, 1}; }
  std::span<const Continuation> Advance(std::span<const RowResult> results) override {
    EXPECT_EQ(results.size(), 1u);
    best_ = results[0].ids[0];
    finished_ = true;
    return {};
  }
  void Stop(FinishReason) override { finished_ = true; }
  bool finished() const override { return finished_; }
  int32_t num_generated_tokens() const override { return finished_ ? 1 : 0; }
  std::vector<GenerateDelta> TakeDeltas() override { return {}; }
  std::vector<GeneratedSequence> TakeSequences() override { return {{.ids = {best_}}}; }

 private:
  RowRequest request_;
  bool finished_ = false;
  int32_t best_ = -1;
};

// The candidates of a row as the backend finds them.
struct Row {
  std::vector<int32_t> ids;
  std::vector<float> raw_values;
  float log_normalizer = 0.0f;
};

Row ComputeRow(const RowRequest& request, const std::vector<float>& logits) {
  Row row;
  row.log_normalizer = static_cast<float>(logits[0] - LogSoftmax(logits)[0]);
  std::vector<float> scores = logits;
  if (request.edits != nullptr) ApplyEdits(*request.edits, scores);
  for (size_t i = 0; i < logits.size(); ++i) row.ids.push_back(static_cast<int32_t>(i));
  std::ranges::stable_sort(row.ids, [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  row.ids.resize(request.num_candidates);
  for (const int32_t id : row.ids) row.raw_values.push_back(logits[id]);
  return row;
}

TEST(PromptLogprobsDecoder, TellsThemForPiecesOfAnySize) {
  constexpr int32_t kVocab = 12;
  const ToyModel model = RandomModel(4, kVocab, /*order=*/5);
  const TokenIds prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
  for (const int32_t num_top : {0, 2, 20}) {
    for (const int32_t piece : {1, 2, 5, 10, 11, 64}) {
      PromptLogprobsDecoder decoder(std::make_unique<OneTokenDecoder>(), prompt, num_top, kVocab,
                                    piece);
      EXPECT_EQ(decoder.max_rows(), std::min(piece, 11));
      TokenIds tokens = decoder.first_piece();
      size_t begin = 0;
      while (!decoder.finished()) {
        const std::span<const RowRequest> requests = decoder.Requests();
        ASSERT_EQ(requests.size(), tokens.size() - begin);
        std::vector<Row> rows;
        for (size_t i = begin; i < tokens.size(); ++i) {
          rows.push_back(ComputeRow(requests[i - begin], model(std::span(tokens).first(i + 1))));
        }
        std::vector<RowResult> results;
        for (const Row& row : rows) {
          results.push_back({.ids = row.ids,
                             .values = row.raw_values,
                             .raw_values = row.raw_values,
                             .log_normalizer = row.log_normalizer});
        }
        begin = tokens.size();
        for (const Continuation& next : decoder.Advance(results)) {
          EXPECT_EQ(decoder.num_generated_tokens(), 0);
          tokens.push_back(next.token);
          tokens.insert(tokens.end(), next.proposals.begin(), next.proposals.end());
        }
      }
      EXPECT_EQ(tokens, prompt);
      const std::vector<float> last = model(prompt);
      EXPECT_EQ(decoder.TakeSequences()[0].ids[0], std::ranges::max_element(last) - last.begin());
      const std::vector<PositionLogprobs> logprobs = decoder.TakePromptLogprobs();
      ASSERT_EQ(logprobs.size(), prompt.size() - 1);
      for (size_t i = 0; i < logprobs.size(); ++i) {
        std::vector<double> expected = LogSoftmax(model(std::span(prompt).first(i + 1)));
        EXPECT_EQ(logprobs[i].chosen.id, prompt[i + 1]);
        EXPECT_NEAR(logprobs[i].chosen.logprob, expected[prompt[i + 1]], 1e-5);
        std::ranges::sort(expected, std::ranges::greater{});
        ASSERT_EQ(logprobs[i].top.size(), static_cast<size_t>(std::min(num_top, kVocab)));
        for (size_t k = 0; k < logprobs[i].top.size(); ++k) {
          EXPECT_NEAR(logprobs[i].top[k].logprob, expected[k], 1e-5);
        }
      }
    }
  }
}

TEST(PromptLogprobsDecoder, PromptOfOneTokenHasNone) {
  PromptLogprobsDecoder decoder(std::make_unique<OneTokenDecoder>(), {7}, 3, 10, 4);
  EXPECT_EQ(decoder.first_piece(), TokenIds{7});
  ASSERT_EQ(decoder.Requests().size(), 1u);
  EXPECT_EQ(decoder.Requests()[0].edits, nullptr);
  const int32_t id = 2;
  const float value = 1.0f;
  decoder.Advance(
      std::vector<RowResult>{{.ids = {&id, 1}, .values = {&value, 1}, .raw_values = {&value, 1}}});
  EXPECT_TRUE(decoder.finished());
  EXPECT_TRUE(decoder.TakePromptLogprobs().empty());
}

}  // namespace
}  // namespace beamline::prompt_logprobs_decoder_test
