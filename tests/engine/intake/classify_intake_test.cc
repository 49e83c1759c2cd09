#include "engine/intake/classify_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tests/engine/intake/complete_job.h"

namespace beamline::classify_intake_test {
namespace {

using testing::HasSubstr;

constexpr char kLabels[] = "classifiers/bert-5x6-labels";  // of three types
constexpr char kRank[] = "classifiers/bert-2x10-rank";     // of two
constexpr char kRoberta[] = "classifiers/roberta-3x8";     // of one

absl::StatusOr<std::unique_ptr<EncodeJob>> Complete(ClassifyRequest request, const char* model) {
  request.model = model;
  return CompleteJob<ClassifyIntake>(request, nullptr);
}

using Scores = std::vector<float>;

// Of one text, whose classes have these logits.
Scores FinishedScores(const Encoding& encoding, Scores logits) {
  const int32_t num_rows[] = {1};
  std::vector<Embedding> inputs(1);
  FinishedRows rows;
  rows.values = logits;
  rows.width = static_cast<int32_t>(logits.size());
  rows.num_rows = num_rows;
  EXPECT_TRUE(encoding.answers->Make(rows, ModelHeads(), inputs).value());
  return inputs[0].values;
}

std::string Error(const ClassifyRequest& request, const char* model = kLabels) {
  return std::string(Complete(request, model).status().message());
}

TEST(ClassifyIntake, APairHasTheTemplateAndTheTypesOfTheTokenizer) {
  ClassifyRequest request;
  request.inputs = {TokenIds{2, 9, 3}, TextPair{"fox", "the"}};
  const auto job = Complete(request, kLabels);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->encoding.reader->mode(), (RowReader::Mode{Pooling::kCls, false}));
  EXPECT_EQ((*job)->encoding.head, HeadKind::kClassifier);
  EXPECT_EQ((*job)->inputs[0], (TokenIds{2, 9, 3}));
  const TokenIds pair = (*job)->inputs[1];
  EXPECT_EQ(pair.front(), 2);
  EXPECT_EQ(pair.back(), 3);
  EXPECT_EQ(std::ranges::count(pair, 3), 2);
  const auto first = static_cast<size_t>(std::ranges::find(pair, 3) - pair.begin()) + 1;
  TokenIds types(pair.size(), 1);
  std::fill_n(types.begin(), first, 0);
  EXPECT_EQ((*job)->type_ids, (std::vector<TokenIds>{{0, 0, 0}, types}));
  EXPECT_EQ((*job)->cost, static_cast<int64_t>(3 + pair.size()));
  EXPECT_EQ((*job)->embeddings.size(), 2u);
}

// The class is read before them, whose tokens nothing that counts can see.
TEST(ClassifyIntake, PaddingAtTheEndOfADecodersTextIsDropped) {
  constexpr char kDecoder[] = "classifiers/qwen3-4of2x6-rank";  // of padding 0
  ClassifyRequest request;
  request.inputs = {TokenIds{9, 0, 8, 0, 0}, TokenIds{0, 0, 0}};
  const auto job = Complete(request, kDecoder);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->encoding.reader->mode().pooling, Pooling::kLast);
  EXPECT_EQ((*job)->inputs, (std::vector<TokenIds>{{9, 0, 8}, {0}}));
  EXPECT_EQ((*job)->cost, 4);
}

TEST(ClassifyIntake, WithoutATemplateOneTextFollowsTheOtherAndTheyNeedAToken) {
  constexpr char kDecoder[] = "classifiers/qwen2-4of2x6";
  ClassifyRequest request;
  request.inputs = {std::string("fox"), std::string("the"), TextPair{"fox", "the"}};
  const auto job = Complete(request, kDecoder);
  ASSERT_TRUE(job.ok()) << job.status();
  TokenIds both = (*job)->inputs[0];
  both.insert(both.end(), (*job)->inputs[1].begin(), (*job)->inputs[1].end());
  EXPECT_EQ((*job)->inputs[2], both);
  request.inputs = {TextPair{"", ""}};
  EXPECT_THAT(Error(request, kDecoder), HasSubstr("inputs[0] has no tokens; accepted: at least 1"));
}

TEST(ClassifyIntake, InputsBehindAPairHaveTypesToo) {
  ClassifyRequest request;
  request.inputs = {TextPair{"fox", "the"}, TokenIds{2, 9, 3}};
  EXPECT_EQ((*Complete(request, kLabels))->type_ids[1], (TokenIds{0, 0, 0}));
  request.inputs = {TokenIds{2, 9, 3}, std::string("fox")};
  EXPECT_TRUE((*Complete(request, kLabels))->type_ids.empty());
  // A model of one type is told none.
  request.inputs = {TextPair{"fox", "the"}};
  EXPECT_TRUE((*Complete(request, kRoberta))->type_ids.empty());
}

// By what it makes of two logits.
ScoreFunction FunctionOf(const ClassifyRequest& request, const char* model) {
  const auto job = Complete(request, model);
  const Scores scores = FinishedScores((*job)->encoding, {0, 9});
  if (scores == Scores{0, 9}) return ScoreFunction::kNone;
  return scores[0] == 0.5f ? ScoreFunction::kSigmoid : ScoreFunction::kSoftmax;
}

TEST(ClassifyIntake, TheFunctionIsTheRequestsElseTheModels) {
  ClassifyRequest request;
  request.inputs = {"a"};
  EXPECT_EQ(FunctionOf(request, kLabels), ScoreFunction::kSigmoid);  // multi-label
  EXPECT_EQ(FunctionOf(request, kRoberta), ScoreFunction::kSoftmax);
  EXPECT_EQ(FunctionOf(request, kRank), ScoreFunction::kSigmoid);
  request.query = "b";
  EXPECT_EQ(FunctionOf(request, kRank), ScoreFunction::kNone);  // its own Identity
  request.function = ScoreFunction::kSoftmax;
  EXPECT_EQ(FunctionOf(request, kRank), ScoreFunction::kSoftmax);
}

TEST(ClassifyIntake, EachTextOfALongPairIsCut) {
  std::string words;
  for (int i = 0; i < 30; ++i) words += "fox ";
  ClassifyRequest request;
  request.inputs = {words};
  request.query = words;
  EXPECT_THAT(Error(request, kRank),
              HasSubstr(" tokens; accepted: at most 24, of both texts; set truncate to cut it"));
  for (const auto truncate : {EncodeTruncation::kRight, EncodeTruncation::kLeft}) {
    request.truncate = truncate;
    const auto job = Complete(request, kRank);
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ((*job)->inputs[0].size(), 24u);
    EXPECT_EQ(std::ranges::count((*job)->type_ids[0], 1), 12);  // an odd token is the second's
  }
}

TEST(ClassifyIntake, RefusesByName) {
  ClassifyRequest request;
  EXPECT_EQ(Error(request), "inputs has 0 entries; accepted: 1 to 4096");
  request.inputs.assign(4097, std::string("a"));
  EXPECT_EQ(Error(request), "inputs has 4097 entries; accepted: 1 to 4096");
  request.inputs = {"a"};
  for (const int32_t top : {-1, 0}) {
    request.top = top;
    EXPECT_THAT(Error(request), HasSubstr(fmt::format("top is {}; accepted: 1 to ", top)));
  }
  request.top = 7;  // more than there are
  EXPECT_EQ(Error(request), "");
  request.inputs = {TokenIds()};
  EXPECT_EQ(Error(request), "inputs[0].ids is empty; accepted: at least 1 token id");
  request.inputs = {TokenIds{1, 4000}};
  EXPECT_THAT(Error(request), HasSubstr("inputs[0].ids[1] is 4000; accepted: 0 to "));
  request.inputs = {TextPair{"a", "\xff"}};
  EXPECT_THAT(Error(request), HasSubstr("inputs[0].pair.second: text is not valid UTF-8"));
  request.inputs = {TextPair{std::string(7000, 'a'), "b"}};
  EXPECT_EQ(Error(request),
            "inputs[0].pair.first has more than 27 tokens; accepted: at most 24; set truncate to "
            "cut it");
  EXPECT_THAT(Error(request, "embed-en"), HasSubstr("has no classes; Classify accepts the others"));
}

TEST(ClassifyIntake, RerankingRefusesByName) {
  ClassifyRequest request;
  request.query = "a";
  EXPECT_EQ(Error(request, kRank), "documents has 0 entries; accepted: 1 to 4096");
  request.inputs.assign(4097, std::string("a"));
  EXPECT_EQ(Error(request, kRank), "documents has 4097 entries; accepted: 1 to 4096");
  request.inputs = {"a", "\xff"};
  EXPECT_THAT(Error(request, kRank), HasSubstr("documents[1]: text is not valid UTF-8"));
  EXPECT_THAT(Error(request), HasSubstr("has 5 classes; a reranker has one"));
  request.query = "";
  EXPECT_EQ(Error(request, kRank), "query is empty; accepted: at least 1 character");
  request.query = std::string(7000, 'a');
  EXPECT_THAT(Error(request, kRank), HasSubstr("query has more than 27 tokens"));
  request.query = "\xff";
  EXPECT_THAT(Error(request, kRank), HasSubstr("query: text is not valid UTF-8"));
}

TEST(ClassifyIntake, AnAnswerThatIsTooLargeIsNotComputed) {
  ClassifyRequest request;
  request.inputs.assign(100, std::string("a"));
  request.max_answer_bytes = 999;
  EXPECT_EQ(Error(request), "the answer has at least 1000 bytes; accepted: at most 999");
  request.top = 4;
  EXPECT_EQ(Error(request), "");
  request.top.reset();
  request.query = "b";
  request.max_answer_bytes = 199;
  EXPECT_EQ(Error(request, kRank), "the answer has at least 200 bytes; accepted: at most 199");
  request.top = 99;
  EXPECT_EQ(Error(request, kRank), "");
}

}  // namespace
}  // namespace beamline::classify_intake_test
