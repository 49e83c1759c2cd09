// What a request becomes before a replica sees it, of the demo models.
#include "engine/intake/prepare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "tests/engine/demo_engine.h"

namespace beamline {
namespace {

using testing::HasSubstr;

const LoadedModel& Loaded(std::string_view name) {
  static std::map<std::string, std::unique_ptr<LoadedModel>> models;
  auto& model = models[std::string(name)];
  if (model == nullptr) {
    ModelOptions options = Demo(std::string(name));
    options.device = "cpu";
    auto loaded = LoadedModel::Load(options, {.num_threads = 1});
    EXPECT_TRUE(loaded.ok()) << loaded.status();
    model = *std::move(loaded);
  }
  return *model;
}

absl::StatusOr<std::unique_ptr<Group>> Prepare(const GenerateRequest& request) {
  const LoadedModel& model = Loaded(request.model);
  auto decoding = CheckGenerate(request, model);
  if (!decoding.ok()) return decoding.status();
  return PrepareGroup(request, *std::move(decoding), /*wants_deltas=*/true, model);
}

TEST(PrepareGroup, CarriesTheRequest) {
  GenerateRequest request = Write("", 30);
  request.prompt = TokenIds{7, 8, 9};
  request.decoding = SamplingOptions{.seed = 77, .num_sequences = 3};
  request.priority = -4;
  request.client = "me";
  request.cache_salt = "salt";
  request.deadline = Clock::time_point() + std::chrono::hours(5);
  const auto group = Prepare(request);
  ASSERT_TRUE(group.ok()) << group.status();
  const Group& found = **group;
  ASSERT_EQ(found.rows.size(), 1u);
  EXPECT_EQ(found.rows[0].tokens, (TokenIds{7, 8, 9}));
  EXPECT_TRUE(found.encoder_ids.empty());
  EXPECT_EQ(found.prompt_tokens, 3);
  EXPECT_EQ(found.num_sequences, 3);
  EXPECT_EQ(found.seed, 77u);
  EXPECT_EQ(found.priority, -4);
  EXPECT_EQ(found.client, "me");
  EXPECT_EQ(found.cache_salt, "salt");
  EXPECT_EQ(found.deadline, request.deadline);
  EXPECT_TRUE(found.wants_deltas);
  EXPECT_EQ(found.cost, 3 + 3 * 30);  // the prompt once, and what each sequence may come to
  EXPECT_TRUE(found.echo_ids.empty());
}

TEST(PrepareGroup, EchoesThePrompt) {
  GenerateRequest request = Write("Package: vim", 3);
  request.output.echo = true;
  const auto group = Prepare(request);
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ((*group)->echo_text, "Package: vim");
  EXPECT_EQ((*group)->echo_ids, (*group)->rows[0].tokens);
}

// A translator's source goes to the encoder; its decoder begins with the start token.
TEST(PrepareGroup, GivesATranslatorItsTwoSides) {
  GenerateRequest request = Translate("", GreedyOptions());
  request.prompt = TokenIds{5, 6, 0};
  request.target_prefix = TokenIds{11, 12};
  const auto group = Prepare(request);
  ASSERT_TRUE(group.ok()) << group.status();
  const int32_t start = Loaded("translate-en-de").description.generation.decoder_start_token_id;
  EXPECT_EQ((*group)->encoder_ids, (TokenIds{5, 6, 0}));
  EXPECT_EQ((*group)->rows[0].tokens, (TokenIds{start, 11, 12}));
  EXPECT_EQ((*group)->prompt_tokens, 3);
}

TEST(CheckGenerate, RefusesWhatTheModelCannot) {
  const auto message = [](const GenerateRequest& request) {
    return std::string(Prepare(request).status().message());
  };
  GenerateRequest request = Write("a", 1);
  request.target_prefix = "b";
  EXPECT_THAT(message(request), HasSubstr("target_prefix is set; accepted for encoder-decoder"));
  request = Translate("a", GreedyOptions());
  request.output.echo = true;
  EXPECT_THAT(message(request), HasSubstr("output.echo is true; accepted for decoder-only"));
  request.output.echo = false;
  request.output.prompt_logprobs = 0;
  EXPECT_THAT(message(request), HasSubstr("output.prompt_logprobs is set; accepted for decoder-"));
  request = Write("a", 1);
  request.model = "embed-en";
  EXPECT_THAT(message(request), HasSubstr("model is 'embed-en', which only encodes"));
  request = Write("a", 1);
  request.priority = 101;
  EXPECT_THAT(message(request), HasSubstr("priority is 101; accepted: -100 to 100"));
  request = Write("a", 1000);
  EXPECT_THAT(message(request), HasSubstr("limits.max_new_tokens is 1000; accepted: 1 to "));
}

absl::StatusOr<std::unique_ptr<EncodeJob>> Prepare(const EncodeRequest& request) {
  const LoadedModel& model = Loaded("embed-en");
  const absl::Status status = CheckEncode(request, model);
  if (!status.ok()) return status;
  return PrepareEncodeJob(request, model);
}

TEST(PrepareEncodeJob, TakesTheModelsSettingsOrTheRequests) {
  EncodeRequest request;
  request.inputs = {TokenIds{2, 9, 3}, "a text editor"};
  auto job = Prepare(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->inputs[0], (TokenIds{2, 9, 3}));
  EXPECT_EQ((*job)->inputs.size(), 2u);
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
  job = Prepare(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ((*job)->pooling, Pooling::kCls);
  EXPECT_FALSE((*job)->normalize);
  EXPECT_FALSE((*job)->renormalize);
  EXPECT_TRUE((*job)->per_token);
  EXPECT_EQ((*job)->dimensions, 16);
  EXPECT_EQ((*job)->priority, 9);
  EXPECT_EQ((*job)->client, "me");
}

TEST(PrepareEncodeJob, CutsIdsOnTheSideThatWasAskedFor) {
  const int32_t limit = Loaded("embed-en").info.max_input_tokens;
  TokenIds ids;
  for (int32_t i = 0; i < limit + 5; ++i) ids.push_back(i);
  EncodeRequest request;
  request.inputs = {ids};
  EXPECT_THAT(std::string(Prepare(request).status().message()),
              HasSubstr("inputs[0] has " + std::to_string(limit + 5) +
                        " tokens; accepted: at most " + std::to_string(limit) + "; set truncate"));
  request.truncate = EncodeTruncation::kRight;
  EXPECT_EQ((*Prepare(request))->inputs[0], TokenIds(ids.begin(), ids.end() - 5));
  request.truncate = EncodeTruncation::kLeft;
  EXPECT_EQ((*Prepare(request))->inputs[0], TokenIds(ids.begin() + 5, ids.end()));
}

TEST(CheckEncode, RefusesByName) {
  EncodeRequest request;
  const auto message = [&request] { return std::string(Prepare(request).status().message()); };
  EXPECT_THAT(message(), HasSubstr("inputs has 0 entries; accepted: 1 to 4096"));
  request.inputs = {"a"};
  request.dimensions = 257;
  EXPECT_THAT(message(), HasSubstr("dimensions is 257; accepted: 0 to 256"));
  request.dimensions = 256;
  request.prompt_name = "query";
  EXPECT_THAT(message(), HasSubstr("prompt_name is 'query'; accepted: none"));
  request.prompt_name = "";
  request.max_answer_bytes = 100;
  EXPECT_EQ(Prepare(request).status().code(), absl::StatusCode::kOutOfRange);
}

}  // namespace
}  // namespace beamline
