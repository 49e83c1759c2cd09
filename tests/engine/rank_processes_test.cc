// Models whose ranks are processes answer as those whose ranks are threads, to the last bit; and
// when a process is lost, everybody is told once, and it may come back. The followers are this
// program with arguments.
#include "tests/engine/rank_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/api/follower.h"
#include "fmt/format.h"
#include "tests/engine/request_catalogue.h"
#include "tests/sanitized.h"
#include "tests/scratch_path.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using Clock = std::chrono::steady_clock;

// The same with threads, one of computing for each rank.
std::unique_ptr<Engine> WithThreads(const ModelOptions& model) {
  EngineOptions options;
  options.models = {model};
  options.num_threads = model.num_ranks();
  auto engine = Engine::Create(options);
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

void ExpectSameBits(const GenerateResult& actual, const GenerateResult& expected) {
  ExpectSameAnswer(actual, expected);
  for (size_t i = 0; i < actual.sequences.size(); ++i) {
    EXPECT_EQ(actual.sequences[i].score, expected.sequences[i].score);
    EXPECT_EQ(actual.sequences[i].cumulative_logprob, expected.sequences[i].cumulative_logprob);
  }
}

TEST(RankProcessesTest, RequestsOfEveryKindAreAnsweredAsByThreads) {
  std::vector<ModelOptions> models = {OnCpu("write-en", 3), OnCpu("translate-en-de", 2, 2),
                                      OnCpu("translate-en-de", 2), OnCpu("write-en", 1, 2),
                                      OnCpu("translate-en-de", 1, 3)};
  if (kSanitized) models.resize(2);
  for (const ModelOptions& model : models) {
    SCOPED_TRACE(fmt::format("{} on {} ranks in {} stages", model.name, model.tensor_parallel,
                             model.pipeline_parallel));
    const Processes processes(model);
    const auto threads = WithThreads(model);
    ASSERT_TRUE(processes.engine != nullptr && threads != nullptr);
    EXPECT_THAT(processes.engine->FindModel(model.name)->device_description,
                HasSubstr(" as processes, each on "));
    std::vector<GenerateRequest> requests = RequestsOfEveryKind();
    std::erase_if(requests, [&](const auto& request) { return request.model != model.name; });
    // One after the other, so that both plan the same steps; the second time all at once.
    for (const GenerateRequest& request : requests) {
      const auto actual = processes.engine->GenerateAndWait(request);
      const auto expected = threads->GenerateAndWait(request);
      ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
      ExpectSameBits(*actual, *expected);
    }
    const auto together = RunTogether(requests, *processes.engine);
    for (size_t i = 0; i < requests.size(); ++i) {
      const auto expected = threads->GenerateAndWait(requests[i]);
      ASSERT_TRUE(together[i].ok() && expected.ok()) << together[i].status();
      ExpectSameAnswer(*together[i], *expected);
    }
  }
}

TEST(RankProcessesTest, CachedBeginningsAreSharedByAllRanks) {
  const Processes processes(OnCpu("write-en", 3));
  const auto threads = WithThreads(OnCpu("write-en", 3));
  ASSERT_TRUE(processes.engine != nullptr && threads != nullptr);
  std::string beginning = "Package: editor\nDescription:";
  for (int i = 0; i < 30; ++i) beginning += " a tool that edits";
  for (int i = 0; i < 3; ++i) {
    const GenerateRequest request = Write(beginning + std::to_string(i), 12);
    const auto actual = processes.engine->GenerateAndWait(request);
    const auto expected = threads->GenerateAndWait(request);
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    ExpectSameBits(*actual, *expected);
  }
  EXPECT_GT(processes.engine->Stats("write-en")->cached_prompt_tokens, 0u);
}

TEST(RankProcessesTest, EmbeddingsAreThoseOfThreads) {
  EncodeRequest request;
  request.model = "embed-en";
  for (int i = 0; i < 10; ++i) {
    std::string text = "How do I install a package";
    for (int word = 0; word < i; ++word) text += " with version " + std::to_string(word * i);
    request.inputs.emplace_back(text);
  }
  for (const ModelOptions& model :
       {OnCpu("embed-en", 2), OnCpu("embed-en", 1, 2), OnCpu("embed-en", 2, 2)}) {
    SCOPED_TRACE(model.pipeline_parallel);
    const Processes processes(model);
    const auto threads = WithThreads(model);
    ASSERT_TRUE(processes.engine != nullptr && threads != nullptr);
    const auto actual = processes.engine->EncodeAndWait(request);
    const auto expected = threads->EncodeAndWait(request);
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    for (size_t i = 0; i < request.inputs.size(); ++i) {
      EXPECT_EQ(actual->embeddings[i].values, expected->embeddings[i].values);
    }
  }
}

TEST(RankProcessesTest, StepsAreRehearsedByAllRanks) {
  ModelOptions model = OnCpu("translate-en-de", 2);
  model.max_sequences = 8;  // what the model's own beams take
  model.max_batch_tokens = 256;
  model.warm_up = "true";
  const Processes processes(model);
  ASSERT_NE(processes.engine, nullptr);
  EXPECT_GT(processes.engine->FindModel(model.name)->warm_up.num_steps, 0);
}

// Under load; every request is answered once, and rightly or with UNAVAILABLE.
class RankProcessesLossTest : public ::testing::TestWithParam<ModelOptions> {};

TEST_P(RankProcessesLossTest, AKilledFollowerEndsEveryRequestOnceAndMayComeBack) {
  const ModelOptions& model = GetParam();
  Processes processes(model);
  ASSERT_NE(processes.engine, nullptr);
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 60; ++i) {
    requests.push_back(Write("Package: lib" + std::to_string(i) + "\nSynopsis:", 60));
    requests.back().limits.ignore_eos = true;
  }
  const std::string lost = "rank 2 at " + processes.door.host.substr(0, 4);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const GenerateRequest& request : requests) {
    sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/true));
    ASSERT_TRUE(processes.engine->Generate(request, sinks.back()).ok());
  }
  sinks.front()->WaitForFirstDelta();
  processes.followers[1].Kill();
  const auto begin = Clock::now();
  size_t num_lost = 0;
  std::string first_message;
  for (const auto& sink : sinks) {
    const auto result = sink->Wait();  // a second answer would throw
    if (result.ok()) continue;
    ++num_lost;
    EXPECT_TRUE(absl::IsUnavailable(result.status())) << result.status();
    EXPECT_THAT(std::string(result.status().message()),
                testing::AnyOf(HasSubstr(lost), HasSubstr("replica")));
    if (first_message.empty()) first_message = std::string(result.status().message());
  }
  EXPECT_GT(num_lost, 0u);
  EXPECT_LT(Clock::now() - begin, seconds(20));
  EXPECT_THAT(first_message, HasSubstr("model 'write-en' cannot answer: its device cpu failed: "));
  EXPECT_FALSE(processes.engine->Stats("write-en")->replicas.front().can_answer);

  processes.followers[1] = FollowerProcess(model, processes.door, 2);
  while (!processes.engine->Stats("write-en")->replicas.front().can_answer) {
    ASSERT_LT(Clock::now() - begin, seconds(100));
    std::this_thread::sleep_for(milliseconds(50));
  }
  const auto threads = WithThreads(model);
  for (size_t i = 0; i < 4; ++i) {
    const auto actual = processes.engine->GenerateAndWait(requests[i]);
    const auto expected = threads->GenerateAndWait(requests[i]);
    ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
    ExpectSameBits(*actual, *expected);
  }
}

// By width, in stages, and both; the follower that is killed has the last layers or the first.
INSTANTIATE_TEST_SUITE_P(Divided, RankProcessesLossTest,
                         testing::Values(OnCpu("write-en", 3), OnCpu("write-en", 1, 3),
                                         OnCpu("write-en", 3, 2)),
                         [](const auto& model) {
                           return fmt::format("{}x{}", model.param.pipeline_parallel,
                                              model.param.tensor_parallel);
                         });

TEST(RankProcessesTest, FollowersOutliveTheirFront) {
  for (const ModelOptions& model : {OnCpu("translate-en-de", 2), OnCpu("translate-en-de", 2, 2)}) {
    const RankDoor door = DoorFor(model.num_ranks());
    std::vector<FollowerProcess> followers;
    for (int rank = 1; rank < door.size; ++rank) followers.emplace_back(model, door, rank);
    for (int round = 0; round < 3; ++round) {
      const auto engine = Engine::Create(AsProcess(model, door));
      ASSERT_TRUE(engine.ok()) << engine.status();
      EXPECT_TRUE((*engine)->GenerateAndWait(Translate("Press any key.", GreedyOptions())).ok());
    }
  }
}

std::string FrontsError(const ModelOptions& of_front, const ModelOptions& of_follower) {
  const RankDoor door = DoorFor(2);
  FollowerProcess follower(of_follower, door, 1);
  const absl::Status status = Engine::Create(AsProcess(of_front, door)).status();
  EXPECT_EQ(follower.Wait(), 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  return std::string(status.message());
}

TEST(RankProcessesTest, WhatDiffersIsNamed) {
  const ModelOptions model = OnCpu("embed-en", 2);
  ModelOptions other = model;
  other.dtype = DType::kBFloat16;
  EXPECT_THAT(FrontsError(model, other),
              HasSubstr("does not compute with this front: dtype is bfloat16; accepted: float32"));

  other = model;
  other.folder = ScratchPath("other");
  std::filesystem::copy(model.folder, other.folder, std::filesystem::copy_options::recursive);
  {
    std::fstream weights(other.folder + "/model.safetensors",
                         std::ios::in | std::ios::out | std::ios::binary);
    ASSERT_TRUE(weights.is_open());
    weights.seekg(-2, std::ios::end);
    const char byte = static_cast<char>(weights.get() ^ 1);
    weights.seekp(-2, std::ios::end);
    weights.put(byte);
  }
  EXPECT_THAT(FrontsError(model, other),
              HasSubstr("is another one than the front's (fingerprint "));

  other.folder = ScratchPath("nothing");
  EXPECT_THAT(FrontsError(model, other), HasSubstr("rank 1 at 127."));

  EXPECT_THAT(FrontsError(model, OnCpu("embed-en", 1, 2)),
              HasSubstr("tensor_parallel is 1 and pipeline_parallel 2; accepted: 2 and 1, as of "
                        "the front"));
}

TEST(RankProcessesTest, MissingRanksAreNamedAtTheStart) {
  const ModelOptions model = OnCpu("write-en", 3);
  const RankDoor door = DoorFor(3);
  EngineOptions options = AsProcess(model, door);
  options.processes.time_limit = milliseconds(300);
  const absl::Status status = Engine::Create(options).status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ranks 1, 2 of 3 did not come to 127."));
}

TEST(RankProcessesTest, AFrontThatNeverComesEndsTheFollower) {
  EngineOptions options = AsProcess(OnCpu("write-en", 3), DoorFor(3), 1);
  options.processes.time_limit = milliseconds(300);
  const absl::Status status = FollowFronts(options, [](const std::string&) {});
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("the front did not come to 127."));
}

TEST(RankProcessesTest, WhatProcessesDoNotDoIsRefused) {
  const auto refusal = [](const ModelOptions& model) {
    const absl::Status of_front = Engine::Create(AsProcess(model, DoorFor(3))).status();
    const absl::Status of_follower =
        FollowFronts(AsProcess(model, DoorFor(3), 1), [](const std::string&) {});
    EXPECT_EQ(of_follower.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(of_front.message()), HasSubstr(std::string(of_follower.message())));
    return std::string(of_follower.message());
  };
  ModelOptions model = OnCpu("write-en", 3);
  model.replicas = "2";
  EXPECT_EQ(refusal(model), "replicas is 2; accepted with rank_address: 1");
  model = OnCpu("write-en", 3);
  model.cache = "float16";
  EXPECT_EQ(refusal(model), "cache is float16; accepted with rank_address: dtype alone");
  model = OnCpu("write-en", 3);
  model.device.clear();
  model.devices = "cuda:0, cuda:1, cuda:2";
  EXPECT_EQ(refusal(model),
            "devices is cuda:0, cuda:1, cuda:2; accepted with rank_address: device, one of each "
            "process");
}

}  // namespace
}  // namespace beamline

int main(int argc, char** argv) {
  if (beamline::IsFollower(argc, argv)) return beamline::RunFollower(argv);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
