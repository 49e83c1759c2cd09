#include "engine/intake/encode_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "tests/engine/intake/complete_job.h"

namespace beamline::encode_intake_test {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<EncodeJob>> Complete(EncodeRequest request) {
  request.model = "embed-en";
  return CompleteJob<EncodeIntake>(request, nullptr);
}

// That are read of the first input.
size_t NumRows(const EncodeJob& job) {
  RowSpans spans;
  job.encoding.reader->AddRows(0, 0, static_cast<int32_t>(job.inputs[0].size()), spans);
  return spans.read().size();
}

// The answer's vector of one that was read.
std::vector<float> Finished(const EncodeJob& job, const std::vector<float>& row) {
  const int32_t num_rows[] = {1};
  std::vector<Embedding> inputs(1);
  FinishedRows rows;
  rows.values = row;
  rows.width = static_cast<int32_t>(row.size());
  rows.num_rows = num_rows;
  EXPECT_TRUE(job.encoding.answers->Make(rows, ModelHeads(), inputs).value());
  EXPECT_EQ(inputs[0].dimensions, static_cast<int32_t>(inputs[0].values.size()));
  return inputs[0].values;
}

TEST(EncodeIntake, TakesTheModelsSettingsOrTheRequests) {
  EncodeRequest request;
  request.inputs = {TokenIds{2, 9, 3}, "a text editor"};
  auto job = Complete(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->inputs[0], (TokenIds{2, 9, 3}));
  EXPECT_EQ((*job)->inputs.size(), 2u);
  EXPECT_EQ((*job)->embeddings.size(), 2u);
  EXPECT_EQ((*job)->cost, static_cast<int64_t>(3 + (*job)->inputs[1].size()));
  // The folder's modules.json says so.
  EXPECT_EQ((*job)->encoding.reader->mode(), (RowReader::Mode{Pooling::kMean, true}));
  EXPECT_EQ((*job)->encoding.head, HeadKind::kNone);
  EXPECT_EQ(NumRows(**job), 1u);
  EXPECT_EQ(Finished(**job, {3, 4, 12}), (std::vector<float>{3, 4, 12}));
  request.pooling = Pooling::kCls;
  request.normalize = false;
  request.dimensions = 2;
  request.priority = 9;
  request.client = "me";
  job = Complete(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->encoding.reader->mode(), (RowReader::Mode{Pooling::kCls, false}));
  EXPECT_EQ(Finished(**job, {3, 4, 12}), (std::vector<float>{3, 4}));
  EXPECT_EQ((*job)->rank.priority, 9);
  EXPECT_EQ((*job)->client, "me");
  request.normalize = true;  // what is left of a vector is a unit vector again
  request.per_token = true;
  job = Complete(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_TRUE((*job)->encoding.reader->mode().normalize);
  EXPECT_EQ(NumRows(**job), 3u);
  EXPECT_THAT(Finished(**job, {3, 4, 12}),
              testing::ElementsAre(testing::FloatEq(0.6f), testing::FloatEq(0.8f)));
}

TEST(EncodeIntake, CutsIdsOnTheSideThatWasAskedFor) {
  const int32_t limit = Loaded("embed-en").info.max_input_tokens;
  TokenIds ids;
  for (int32_t i = 0; i < limit + 5; ++i) ids.push_back(i);
  EncodeRequest request;
  request.inputs = {ids};
  EXPECT_THAT(std::string(Complete(request).status().message()),
              HasSubstr("inputs[0] has " + std::to_string(limit + 5) +
                        " tokens; accepted: at most " + std::to_string(limit) + "; set truncate"));
  request.truncate = EncodeTruncation::kRight;
  EXPECT_EQ((*Complete(request))->inputs[0], TokenIds(ids.begin(), ids.end() - 5));
  request.truncate = EncodeTruncation::kLeft;
  EXPECT_EQ((*Complete(request))->inputs[0], TokenIds(ids.begin() + 5, ids.end()));
}

TEST(EncodeIntake, RefusesByName) {
  EncodeRequest request;
  const auto message = [&request] { return std::string(Complete(request).status().message()); };
  EXPECT_THAT(message(), HasSubstr("inputs has 0 entries; accepted: 1 to 4096"));
  request.inputs.assign(4097, "a");
  EXPECT_EQ(message(), "inputs has 4097 entries; accepted: 1 to 4096");
  request.inputs = {"a"};
  request.request_id = std::string(257, 'x');
  EXPECT_EQ(message(), "request_id has 257 bytes; accepted: at most 256");
  request.request_id.resize(256);
  for (const int32_t dimensions : {-1, 0, 257}) {
    request.dimensions = dimensions;
    EXPECT_EQ(message(), fmt::format("dimensions is {}; accepted: 1 to 256", dimensions));
  }
  request.dimensions = 256;
  request.prompt_name = "query";
  EXPECT_THAT(message(), HasSubstr("prompt_name is 'query'; accepted: none"));
  request.prompt_name = "";
  request.max_answer_bytes = 100;
  EXPECT_EQ(Complete(request).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace beamline::encode_intake_test
