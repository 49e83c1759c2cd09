#include "engine/intake/encode_intake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "fmt/format.h"
#include "tests/engine/intake/complete_job.h"

namespace beamline::encode_intake_test {
namespace {

using testing::HasSubstr;

absl::StatusOr<std::unique_ptr<EncodeJob>> Complete(EncodeRequest request) {
  request.model = "embed-en";
  return CompleteJob<EncodeIntake>(request, nullptr);
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
  EXPECT_EQ((*job)->pooling, Pooling::kMean);
  EXPECT_TRUE((*job)->normalize);  // the folder's modules.json says so
  EXPECT_FALSE((*job)->per_token);
  EXPECT_EQ((*job)->dimensions, 0);
  request.pooling = Pooling::kCls;
  request.normalize = false;
  request.per_token = true;
  request.dimensions = 16;
  request.priority = 9;
  request.client = "me";
  job = Complete(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->pooling, Pooling::kCls);
  EXPECT_FALSE((*job)->normalize);
  EXPECT_FALSE((*job)->renormalize);
  EXPECT_TRUE((*job)->per_token);
  EXPECT_EQ((*job)->dimensions, 16);
  EXPECT_EQ((*job)->rank.priority, 9);
  EXPECT_EQ((*job)->client, "me");
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
