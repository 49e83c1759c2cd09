// Models that two GPUs compute together, by width or one behind the other, answer as one GPU does,
// hold half each, and fail together.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/api/follower.h"
#include "engine/intake/generate_intake.h"
#include "engine/loading/loaded_model.h"
#include "engine/transformer/ranked_backend.h"
#include "fmt/format.h"
#include "kernels/cuda_loader.h"
#include "tests/engine/hand_in.h"
#include "tests/engine/random_model.h"
#include "tests/engine/request_catalogue.h"
#include "tests/engine/transformer/model_runner.h"
#include "tests/rank_door.h"

namespace beamline::gpu_ranks_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr float kEmbeddingTolerance = 1e-4f;

// Steps are rehearsed where `warm_up` says so.
ModelOptions OnGpus(ModelOptions options, int32_t num_ranks) {
  if (options.warm_up == "auto") options.warm_up = "false";
  options.device = "cuda";
  options.tensor_parallel = num_ranks;
  return options;
}

ModelOptions InStages(ModelOptions options, int32_t num_stages) {
  options = OnGpus(std::move(options), 1);
  options.pipeline_parallel = num_stages;
  return options;
}

std::unique_ptr<Engine> ServeOne(const ModelOptions& model) {
  auto engine = Serve({model});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return engine.ok() ? *std::move(engine) : nullptr;
}

void ExpectSameAnswers(const std::vector<GenerateRequest>& requests, const ModelOptions& model) {
  const auto one = ServeOne(OnGpus(model, 1));
  ASSERT_NE(one, nullptr);
  const auto expected = RunTogether(requests, *one);
  for (const ModelOptions& divided : {OnGpus(model, 2), InStages(model, 2)}) {
    SCOPED_TRACE(divided.pipeline_parallel > 1 ? "in stages" : "by width");
    const auto two = ServeOne(divided);
    ASSERT_NE(two, nullptr);
    const auto actual = RunTogether(requests, *two);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ASSERT_TRUE(actual[i].ok()) << actual[i].status();
      ASSERT_TRUE(expected[i].ok()) << expected[i].status();
      ExpectSameAnswer(*actual[i], *expected[i]);
    }
  }
}

TEST(GpuRanksTest, ATranslatorAnswersAsOnOneGpu) {
  std::vector<GenerateRequest> requests = RequestsOfEveryKind();
  std::erase_if(requests, [](const auto& request) { return request.model != "translate-en-de"; });
  ASSERT_GE(requests.size(), 4u);
  ModelOptions model = Demo("translate-en-de");
  model.warm_up = "true";
  ExpectSameAnswers(requests, model);
}

// The weights of a random checkpoint, divided into eight heads.
TEST(GpuRanksTest, AWriterAnswersAsOnOneGpu) {
  const RandomStack writer("gpt2-5x8-deep", 97, /*with_template=*/false);
  writer.Change("config.json", {{"n_head", 8}});
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 18; ++i) {
    GenerateRequest request;
    request.model = "model";
    request.prompt = TokenIds{3 + i, 20, 7, 40 - i, 11};
    request.limits.max_new_tokens = 12;
    request.decoding = GreedyOptions();
    if (i % 3 == 1) request.decoding = BeamOptions{.width = 1 + i, .num_sequences = 2};
    if (i % 3 == 2) request.decoding = SamplingOptions{.seed = 5, .num_sequences = 3};
    if (i >= 9) {
      request.shaping.repetition_penalty = 1.3f;
      request.shaping.logit_bias = {{5, 2.0f}, {40, 1.0f}, {60, -3.0f}, {96, 4.0f}};
      request.output = {.logprobs = 4, .return_logprobs = true};
    }
    requests.push_back(std::move(request));
  }
  ExpectSameAnswers(requests, writer.Options("model"));
}

TEST(GpuRanksTest, AnEncoderEmbedsAsOnOneGpu) {
  const auto one = ServeOne(OnGpus(Demo("embed-en"), 1));
  ASSERT_NE(one, nullptr);
  for (const ModelOptions& divided : {OnGpus(Demo("embed-en"), 2), InStages(Demo("embed-en"), 2)}) {
    EncodeRequest request;
    request.model = "embed-en";
    for (int i = 0; i < 20; ++i) {
      std::string text = "How do I install a package";
      for (int word = 0; word < i; ++word) text += " with version " + std::to_string(word * i);
      request.inputs.emplace_back(text);
    }
    const auto two = ServeOne(divided);
    ASSERT_NE(two, nullptr);
    for (int round = 0; round < 3; ++round) {  // all together, and the same alone, recorded
      const auto actual = two->EncodeAndWait(request), expected = one->EncodeAndWait(request);
      ASSERT_TRUE(actual.ok() && expected.ok()) << actual.status() << expected.status();
      for (size_t i = 0; i < request.inputs.size(); ++i) {
        EXPECT_THAT(actual->embeddings[i].values,
                    testing::Pointwise(testing::FloatNear(kEmbeddingTolerance),
                                       expected->embeddings[i].values));
      }
      request.inputs.resize(1);
    }
  }
}

// Five layers, whose prompts and tokens go from one GPU to the other in two lanes.
TEST(GpuRanksTest, StagesWriteAsOneGpu) {
  std::vector<GenerateRequest> requests = RequestsOfEveryKind();
  std::erase_if(requests, [](const auto& request) { return request.model != "write-en"; });
  ASSERT_GE(requests.size(), 4u);
  ModelOptions model = Demo("write-en");
  model.warm_up = "true";
  const auto one = ServeOne(OnGpus(model, 1)), two = ServeOne(InStages(model, 2));
  ASSERT_TRUE(one != nullptr && two != nullptr);
  EXPECT_EQ(two->FindModel("write-en")->device, "cuda:0,cuda:1");
  for (int round = 0; round < 3; ++round) {
    const auto actual = RunTogether(requests, *two), expected = RunTogether(requests, *one);
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ASSERT_TRUE(actual[i].ok() && expected[i].ok()) << actual[i].status() << expected[i].status();
      ExpectSameAnswer(*actual[i], *expected[i]);
    }
  }
}

// Two ranks that meet as processes do, each with a GPU, a follower on a thread here.
TEST(GpuRanksTest, ProcessesAnswerAsOneGpu) {
  for (const ModelOptions& model :
       {OnGpus(Demo("translate-en-de"), 2), InStages(Demo("write-en"), 2)}) {
    SCOPED_TRACE(model.name);
    const RankDoor door = DoorFor(2);
    EngineOptions options = TestEngineOptions();
    options.models = {model};
    options.models.front().warm_up = "true";
    options.processes = {.host = door.host,
                         .port = door.port,
                         .rank = 0,
                         .secret = door.secret,
                         .time_limit = std::chrono::seconds(10)};
    std::thread follower([of_front = options] {
      EngineOptions own = of_front;
      own.models.front().device = "cuda:1";
      own.processes.rank = 1;
      const absl::Status ended = FollowFronts(own, [](const std::string&) {});
      EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;  // no further front
    });
    {
      const auto front = Engine::Create(options);
      ASSERT_TRUE(front.ok()) << front.status();
      EXPECT_THAT((*front)->FindModel(model.name)->device_description,
                  HasSubstr(" as processes, each on NVIDIA"));
      const auto one = ServeOne(OnGpus(Demo(model.name), 1));
      ASSERT_NE(one, nullptr);
      std::vector<GenerateRequest> requests = RequestsOfEveryKind();
      std::erase_if(requests, [&](const auto& request) { return request.model != model.name; });
      for (int round = 0; round < 2; ++round) {
        const auto actual = RunTogether(requests, **front), expected = RunTogether(requests, *one);
        for (size_t i = 0; i < requests.size(); ++i) {
          SCOPED_TRACE("request " + std::to_string(i));
          EXPECT_TRUE(actual[i].ok() && expected[i].ok()) << actual[i].status();
          if (actual[i].ok() && expected[i].ok()) ExpectSameAnswer(*actual[i], *expected[i]);
        }
      }
    }
    follower.join();
  }
}

// The logits of a translator that reads `source` and is given an answer.
Matrix LogitsOf(DType dtype, int num_ranks) {
  auto runner = ModelRunner::Open(Demo("translate-en-de").folder, dtype, num_ranks);
  EXPECT_TRUE(runner.ok()) << runner.status();
  if (!runner.ok()) return {};
  std::vector<RunnerSequence> sequences(3);
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (size_t i = 0; i < 12 + 5 * s; ++i) {
      sequences[s].source.push_back(static_cast<int32_t>(100 + (37 * i + 11 * s) % 4000));
    }
    sequences[s].source.push_back(0);
    sequences[s].tokens = {(*runner)->description().generation.decoder_start_token_id};
    for (size_t i = 0; i < 20; ++i) {
      sequences[s].tokens.push_back(static_cast<int32_t>(200 + (53 * i + 7 * s) % 3000));
    }
  }
  (*runner)->EncodeMemory(sequences);
  while ((*runner)->Step(sequences, 1)) {
  }
  Matrix logits = sequences[0].logits;
  for (size_t s = 1; s < sequences.size(); ++s) {
    const auto& more = sequences[s].logits.values;
    logits.values.insert(logits.values.end(), more.begin(), more.end());
  }
  return logits;
}

double RelativeError(const Matrix& actual, const Matrix& expected) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double difference = double{actual.values[i]} - expected.values[i];
    error += difference * difference;
    norm += double{expected.values[i]} * expected.values[i];
  }
  return std::sqrt(error / norm);
}

// Sums of two halves round once more than one product: no further from float32 than half as much
// again as one GPU is.
TEST(GpuRanksTest, HalfTypesErrAsOnOneGpu) {
  ASSERT_EQ(setenv("BEAMLINE_TEST_DEVICE", "cuda", 1), 0);
  const Matrix expected = LogitsOf(DType::kFloat32, 1);
  ASSERT_FALSE(expected.values.empty());
  EXPECT_LE(RelativeError(LogitsOf(DType::kFloat32, 2), expected), 1e-5);
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const double one = RelativeError(LogitsOf(dtype, 1), expected);
    const double two = RelativeError(LogitsOf(dtype, 2), expected);
    std::printf("%s: one GPU %.2e, two %.2e\n", Name(dtype), one, two);
    EXPECT_LE(two, 1.5 * one) << Name(dtype);
    EXPECT_GT(two, 0.0);
  }
}

TEST(GpuRanksTest, EachGpuHoldsItsHalf) {
  auto one = LoadedModel::Load(OnGpus(Demo("translate-en-de"), 1), {.gpu_memory = kTestGpuMemory});
  ASSERT_TRUE(one.ok()) << one.status();
  const int64_t whole = (*one)->info.weight_bytes;
  const size_t free_of_one = *(*one)->backend->FreeMemory();
  (*one).reset();
  MemoryPlan plan;
  auto two = LoadedModel::Load(
      OnGpus(Demo("translate-en-de"), 2),
      {.gpu_memory = kTestGpuMemory, .admit = [&](const MemoryPlan& asked, const Backend& backend) {
         plan = asked;
         EXPECT_GT(*backend.FreeMemory(), free_of_one);
         return absl::OkStatus();
       }});
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ((*two)->info.device, "cuda:0,cuda:1");
  EXPECT_TRUE((*two)->on_gpu);
  // Padding is not in the plan.
  EXPECT_NEAR(static_cast<double>(plan.weights), static_cast<double>((*two)->info.weight_bytes),
              static_cast<double>(plan.weights) / 100);
  RankGroup& ranks = static_cast<RankedBackend*>((*two)->backend.get())->ranks();
  ASSERT_EQ(ranks.size(), 2);
  for (int rank = 0; rank < 2; ++rank) {
    for (const MemoryUse& use : ranks.backend(rank).MemoryUsage()) {
      if (use.name != "weights") continue;
      EXPECT_GE(use.bytes, static_cast<size_t>(whole) * 9 / 20) << rank;
      EXPECT_LE(use.bytes, static_cast<size_t>(whole) * 3 / 5) << rank;
    }
  }
}

TEST(GpuRanksTest, WhatCannotBeIsRefused) {
  const auto refusal = [](ModelOptions options) { return Serve({options}).status(); };
  const auto gpus = CountCudaDevices();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  if (*gpus < 4) {
    EXPECT_THAT(std::string(refusal(OnGpus(Demo("translate-en-de"), 4)).message()),
                HasSubstr(fmt::format("tensor_parallel is 4; accepted: 1 to {}, the GPUs that are "
                                      "there",
                                      *gpus)));
  }
  if (*gpus < 4) {
    EXPECT_THAT(std::string(refusal(InStages(Demo("translate-en-de"), 4)).message()),
                HasSubstr(fmt::format("pipeline_parallel is 4; accepted: 1 to {}, the GPUs that "
                                      "are there",
                                      *gpus)));
  }
  EXPECT_THAT(std::string(refusal(OnGpus(Demo("write-en"), 2)).message()),
              HasSubstr("tensor_parallel is 2, which does not divide the 3 attention heads"));
  ASSERT_EQ(setenv("BEAMLINE_NCCL_LIBRARY", "/nonexistent/libnccl.so.2", 1), 0);
  const absl::Status missing = refusal(OnGpus(Demo("translate-en-de"), 2));
  const absl::Status of_stages = refusal(InStages(Demo("translate-en-de"), 2));
  ASSERT_EQ(unsetenv("BEAMLINE_NCCL_LIBRARY"), 0);
  EXPECT_EQ(missing.code(), absl::StatusCode::kUnavailable) << missing;
  EXPECT_THAT(std::string(missing.message()),
              AllOf(HasSubstr("tensor_parallel is 2 on cuda:0, cuda:1, which do not compute "
                              "together here: BEAMLINE_NCCL_LIBRARY names a file that does not "
                              "open"),
                    HasSubstr("/nonexistent/libnccl.so.2")));
  EXPECT_THAT(std::string(of_stages.message()),
              HasSubstr("pipeline_parallel is 2 on cuda:0, cuda:1, which do not compute together"));
  // One GPU needs none of it.
  EXPECT_NE(ServeOne(OnGpus(Demo("embed-en"), 1)), nullptr);
}

// Whichever rank fails while requests run, all of them end, and so does the replica.
TEST(GpuRanksTest, AFaultIsTheWholeReplicas) {
  const ModelOptions by_width = OnGpus(Demo("translate-en-de"), 2);
  const ModelOptions in_stages = InStages(Demo("translate-en-de"), 2);
  for (const auto& [options, rank] : {std::pair(by_width, 0), std::pair(by_width, 1),
                                      std::pair(in_stages, 0), std::pair(in_stages, 1)}) {
    auto model = LoadedModel::Load(options, {.gpu_memory = kTestGpuMemory});
    ASSERT_TRUE(model.ok()) << model.status();
    RankGroup& ranks = static_cast<RankedBackend*>((*model)->backend.get())->ranks();
    Replica replica(*std::move(model), nullptr);
    TicketCounter tickets;
    WaitingCounter waiting;
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 40; ++i) {
      GenerateRequest request =
          Translate("This package has many files: " + std::to_string(i),
                    i % 2 == 0 ? Decoding(GreedyOptions()) : Decoding(BeamOptions{.width = 4}));
      request.limits.ignore_eos = true;
      sinks.push_back(std::make_shared<RecordingSink>(/*stream=*/i == 0));
      HandIn<GenerateIntake>(request, sinks.back(), tickets, waiting, replica);
    }
    sinks.front()->WaitForFirstDelta();
    Communicator* const end =
        ranks.shares(rank) != nullptr ? ranks.shares(rank) : ranks.stages(rank);
    end->Abort(absl::UnavailableError("the link is down"));
    int num_failed = 0;
    for (const auto& sink : sinks) {
      const absl::Status status = sink->Wait().status();
      if (status.ok()) continue;  // it was done before
      ++num_failed;
      EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("the link is down"));
    }
    EXPECT_GT(num_failed, 0);
    EXPECT_FALSE(replica.fault().status().ok());
  }
}

}  // namespace
}  // namespace beamline::gpu_ranks_test
