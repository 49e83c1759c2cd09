// What is run while a model is loaded: that it is what it is meant to be, and leaves nothing
// behind.
#include "engine/loading/rehearsal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/models/models.h"
#include "engine/transformer/decode_bucket.h"
#include "engine/transformer/long_input.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/late_replica.h"

namespace beamline::rehearsal_test {
namespace {

constexpr std::chrono::seconds kLong{600};
// Enough for every kind of step, and sooner done than the default.
constexpr int32_t kBatchTokens = kSanitized ? 128 : 768;
constexpr int32_t kSequences = kSanitized ? 16 : 256;

// With a sanitizer, which is slow, the one that has an encoder as well as a decoder.
std::vector<std::string> Models() {
  if (kSanitized) return {"translate-en-de"};
  return {"translate-en-de", "embed-en", "write-en"};
}
std::vector<std::string> Generators() {
  if (kSanitized) return {"translate-en-de"};
  return {"write-en", "translate-en-de"};
}

// max_positions 0: the model's own.
std::unique_ptr<Transformer> LoadFolder(const std::string& folder, const StepLimits& limits,
                                        Backend& backend, int32_t max_positions = 0) {
  const auto checkpoint = Checkpoint::Open(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto description = DescribeModel(**checkpoint);
  EXPECT_TRUE(description.ok()) << description.status();
  TransformerSpec spec = description->spec;
  for (auto* stack : {&spec.encoder, &spec.decoder}) {
    if (stack->has_value() && max_positions > 0) (*stack)->max_positions = max_positions;
  }
  auto transformer = Transformer::Create(spec, **checkpoint, DType::kFloat32, limits, backend);
  EXPECT_TRUE(transformer.ok()) << transformer.status();
  return *std::move(transformer);
}

std::unique_ptr<Transformer> Load(const std::string& name, const StepLimits& limits,
                                  Backend& backend, int32_t max_positions = 0) {
  return LoadFolder(Demo(name).folder, limits, backend, max_positions);
}

std::map<std::string, size_t> Usage(const Backend& backend) {
  std::map<std::string, size_t> bytes;
  for (const MemoryUse& use : backend.MemoryUsage()) bytes[use.name] = use.bytes;
  return bytes;
}

// Ragged ones: steps must be within all of them, which the transformer and the cache check. In the
// last it is the cache that bounds the step.
constexpr StepLimits kRaggedLimits[] = {{.max_batch_tokens = 100,
                                         .max_sequences = 7,
                                         .max_logits_rows = 64,
                                         .max_candidates = 136,
                                         .num_blocks = 200},
                                        {.max_batch_tokens = 16,
                                         .max_sequences = 1,
                                         .max_logits_rows = 3,
                                         .max_candidates = 5,
                                         .num_blocks = 70},
                                        {.max_batch_tokens = 120,
                                         .max_sequences = 5,
                                         .max_logits_rows = 120,
                                         .max_head_rows = 17,
                                         .max_candidates = 9,
                                         .num_blocks = 200},
                                        {.max_batch_tokens = 1200,
                                         .max_sequences = 3,
                                         .max_logits_rows = 70,
                                         .max_candidates = 136,
                                         .num_blocks = 300},
                                        {.max_batch_tokens = 1200,
                                         .max_sequences = 80,
                                         .max_logits_rows = 80,
                                         .max_candidates = 136,
                                         .num_blocks = 70}};

// Without the large ones where a sanitizer looks.
std::span<const StepLimits> RaggedLimits() {
  return std::span(kRaggedLimits).first(kSanitized ? 3 : std::size(kRaggedLimits));
}

TEST(RehearseLargestTest, StepsAreAsLargeAsTheLimitsAllow) {
  for (const std::string& name : Models()) {
    for (const StepLimits& limits : RaggedLimits()) {
      SCOPED_TRACE(testing::Message() << name << ", " << limits.max_batch_tokens << " tokens, "
                                      << limits.num_blocks << " blocks");
      LateBackend backend(1);
      const auto transformer = Load(name, limits, backend);
      const TransformerSpec& spec = transformer->spec();
      ASSERT_TRUE(RehearseLargest(limits, *transformer, backend).ok());
      const StackSpec& stack = spec.encoder.has_value() ? *spec.encoder : *spec.decoder;
      LateBackend::Largest expected;
      expected.tokens =
          std::min(limits.max_batch_tokens, limits.max_sequences * stack.max_positions);
      if (spec.decoder.has_value()) {
        expected.tokens = std::min<int64_t>(expected.tokens, limits.num_blocks * limits.block_size);
        expected.logits_rows = expected.draws = limits.head_rows();
        expected.candidates = limits.max_candidates;
      }
      EXPECT_EQ(backend.largest(), expected);
    }
  }
}

// Of inputs that are longer than a step the longest one.
TEST(RehearseLargestTest, ComputesTheLargestPiecesOfALongInput) {
  constexpr StepLimits kLimits = {
      .max_batch_tokens = 16, .max_sequences = 3, .max_input_tokens = 64};
  LateBackend backend(1);
  const auto transformer =
      LoadFolder(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/qwen3-6of2x6-embed",
                 kLimits, backend);
  ASSERT_TRUE(RehearseLargest(kLimits, *transformer, backend).ok());
  EXPECT_EQ(backend.largest().tokens, kLimits.max_batch_tokens);
  ASSERT_NE(transformer->long_input(), nullptr);
  ASSERT_TRUE(transformer->long_input()->done());
  EXPECT_EQ(transformer->long_input()->hidden().dim(0), kLimits.max_input_tokens);
  backend.BreakAfter(-1);
  EXPECT_EQ(RehearseLargest(kLimits, *transformer, backend).code(), absl::StatusCode::kUnavailable);
}

TEST(RehearseLargestTest, NothingOfThemStays) {
  for (const std::string& name : Models()) {
    for (const StepLimits& limits : RaggedLimits()) {
      SCOPED_TRACE(testing::Message() << name << ", " << limits.max_batch_tokens << " tokens, "
                                      << limits.num_blocks << " blocks");
      const auto backend = MakeCpuBackend({});
      const auto transformer = Load(name, limits, *backend);
      // The first time writes what it needs.
      ASSERT_TRUE(RehearseLargest(limits, *transformer, *backend).ok());
      const auto before = Usage(*backend);
      const absl::Status status = RehearseLargest(limits, *transformer, *backend);
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(Usage(*backend), before);
    }
  }
}

absl::StatusOr<std::unique_ptr<Engine>> Serve(const std::string& name, const std::string& warm_up) {
  EngineOptions options;
  options.num_threads = 1;  // threads that wait for each other are slow where others compute
  options.models = {Demo(name)};
  options.gpu_memory = kTestGpuMemory;
  options.models[0].warm_up = warm_up;
  options.models[0].max_batch_tokens = kBatchTokens;
  options.models[0].max_sequences = kSequences;
  return Engine::Create(options);
}

void ExpectSame(const absl::StatusOr<GenerateResult>& actual,
                const absl::StatusOr<GenerateResult>& expected) {
  ASSERT_TRUE(actual.ok()) << actual.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(actual->usage.cached_tokens, 0);
  ASSERT_EQ(actual->sequences.size(), expected->sequences.size());
  for (size_t i = 0; i < actual->sequences.size(); ++i) {
    EXPECT_EQ(actual->sequences[i].ids, expected->sequences[i].ids);
    EXPECT_EQ(actual->sequences[i].cumulative_logprob, expected->sequences[i].cumulative_logprob);
  }
}

// The model's answers, of which the first is to a prompt that the warm-up has computed: token 0
// again and again.
std::vector<GenerateRequest> Requests(const std::string& model) {
  std::vector<GenerateRequest> requests(4);
  requests[0].prompt = TokenIds(40, 0);
  requests[1].prompt = "Package: warm";
  requests[2].prompt = "a text of its own";
  requests[2].decoding = BeamOptions{.width = 4};
  requests[3].prompt = "the last one";
  requests[3].decoding = SamplingOptions{.seed = 5, .num_sequences = 2};
  for (GenerateRequest& request : requests) {
    request.model = model;
    request.limits.max_new_tokens = 24;
    request.output.return_logprobs = true;
  }
  return requests;
}

TEST(RehearseUsualTest, GeneratorsAnswerWithTheSameBits) {
  for (const std::string& model : Generators()) {
    const auto warm = Serve(model, "true"), cold = Serve(model, "false");
    ASSERT_TRUE(warm.ok()) << warm.status();
    ASSERT_TRUE(cold.ok()) << cold.status();
    EXPECT_GT((*warm)->Models()[0].warm_up.num_steps, 50);
    EXPECT_EQ((*cold)->Models()[0].warm_up.num_steps, 0);
    const auto stats = (*warm)->Stats(model);
    ASSERT_TRUE(stats.ok());
    EXPECT_EQ(stats->steps, 0u);
    EXPECT_EQ(stats->used_blocks, 0);
    EXPECT_EQ(stats->prompt_tokens, 0u);
    for (const GenerateRequest& request : Requests(model)) {
      ExpectSame((*warm)->GenerateAndWait(request), (*cold)->GenerateAndWait(request));
    }
  }
}

TEST(RehearseUsualTest, EncodersAnswerWithTheSameBits) {
  const auto warm = Serve("embed-en", "true"), cold = Serve("embed-en", "false");
  ASSERT_TRUE(warm.ok()) << warm.status();
  ASSERT_TRUE(cold.ok()) << cold.status();
  EXPECT_GT((*warm)->Models()[0].warm_up.num_steps, 50);
  EncodeRequest request;
  request.model = "embed-en";
  request.inputs = {"one", "a second text", TokenIds(64, 0)};
  const auto actual = (*warm)->EncodeAndWait(request), expected = (*cold)->EncodeAndWait(request);
  ASSERT_TRUE(actual.ok()) << actual.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  for (size_t i = 0; i < request.inputs.size(); ++i) {
    EXPECT_EQ(actual->embeddings[i].values, expected->embeddings[i].values);
  }
}

TEST(RehearseUsualTest, AutoIsOffOnTheCpuAndOtherWordsAreRefused) {
  const auto engine = Serve("write-en", "auto");
  ASSERT_TRUE(engine.ok()) << engine.status();
  const ModelInfo model = (*engine)->Models()[0];
  EXPECT_EQ(model.warm_up.num_steps == 0, model.device == "cpu");
  const absl::Status status = Serve("write-en", "perhaps").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

// Rows of one token each, of tables so wide.
uint64_t DecodeShape(int32_t rows, int32_t blocks, int32_t memory_blocks,
                     const StepLimits& limits) {
  StepBatch batch, padded;
  batch.token_ids.resize(rows);
  batch.logits_rows.resize(rows);
  batch.query_offsets.resize(rows + 1);
  batch.max_blocks = blocks;
  batch.block_tables.resize(static_cast<size_t>(rows) * blocks);
  batch.max_memory_blocks = memory_blocks;
  batch.memory_tables.resize(static_cast<size_t>(rows) * memory_blocks);
  return PadDecodeStep(batch, limits, padded);
}

// A device records the second step of a shape.
constexpr int kRecordedTimes = 2;

TEST(RehearseUsualTest, TheseShapesAreRecorded) {
  // With a sanitizer RequestsMeetRecordedShapes runs the steps of the others.
  const std::vector<std::string> models =
      kSanitized ? std::vector<std::string>{"embed-en"} : Models();
  for (const std::string& model : models) {
    SCOPED_TRACE(model);
    ModelOptions options = Demo(model);
    options.max_batch_tokens = kBatchTokens;
    LateReplica replica(options);
    const TransformerSpec& spec = replica.transformer().spec();
    std::set<uint64_t> expected;
    for (int32_t tokens = 1; spec.encoder.has_value() && tokens <= 64; ++tokens) {
      EncoderBatch batch;
      batch.token_ids.resize(tokens);
      batch.offsets = {0, tokens};
      expected.insert(EncoderShape(batch));
    }
    if (spec.decoder.has_value()) {
      for (const int32_t rows : {1, 2, 4, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64}) {
        for (const int32_t blocks : {1, 2, 4, 8, 16, 32}) {
          const int32_t memory_blocks = spec.encoder.has_value() ? blocks : 0;
          expected.insert(DecodeShape(rows, blocks, memory_blocks, replica.limits()));
        }
      }
    }
    const auto report =
        RehearseUsual(replica.limits(), replica.transformer(), replica.backend(), kLong);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->complete);
    EXPECT_EQ(replica.backend().shapes(kRecordedTimes), expected);
  }
}

// A limit need not be a size that steps are padded to: it is the last size itself.
TEST(RehearseUsualTest, TheMostRowsAndTheWidestTablesAreRecorded) {
  constexpr StepLimits kLimits = {.max_batch_tokens = 64, .max_sequences = 11, .num_blocks = 200};
  constexpr int32_t kPositions = 290;  // 19 blocks
  LateBackend backend(1);
  const auto transformer = Load("translate-en-de", kLimits, backend, kPositions);
  const auto report = RehearseUsual(kLimits, *transformer, backend, kLong);
  ASSERT_TRUE(report.ok()) << report.status();
  const std::set<uint64_t> recorded = backend.shapes(kRecordedTimes);
  for (int32_t rows = 1; rows <= 11; ++rows) {
    for (int32_t blocks = 1; blocks <= 19; ++blocks) {
      EXPECT_TRUE(recorded.contains(DecodeShape(rows, blocks, std::min(blocks, 4), kLimits)))
          << rows << " rows of " << blocks << " blocks";
    }
  }
}

// Where the cache has room for fewer rows than the limits, these are the most.
TEST(RehearseUsualTest, TheRowsThatTheCacheHasRoomForAreRecorded) {
  constexpr StepLimits kLimits = {.max_batch_tokens = 64, .max_sequences = 64, .num_blocks = 35};
  LateBackend backend(1);
  const auto transformer = Load("write-en", kLimits, backend);
  const auto report = RehearseUsual(kLimits, *transformer, backend, kLong);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->complete);
  const std::set<uint64_t> recorded = backend.shapes(kRecordedTimes);
  for (int32_t blocks = 1; blocks <= 32; ++blocks) {
    for (int32_t rows = 1; rows + blocks - 1 <= 35; ++rows) {
      EXPECT_TRUE(recorded.contains(DecodeShape(rows, blocks, 0, kLimits)))
          << rows << " rows of " << blocks << " blocks";
    }
  }
}

// Requests of the usual sizes come in no shape that has not been recorded.
TEST(RehearseUsualTest, RequestsMeetRecordedShapes) {
  for (const std::string& model : Generators()) {
    ModelOptions options = Demo(model);
    options.max_batch_tokens = kBatchTokens;
    options.max_sequences = kSequences;
    LateReplica replica(options);
    const auto report =
        RehearseUsual(replica.limits(), replica.transformer(), replica.backend(), kLong);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->complete);
    const std::set<uint64_t> warm = replica.backend().shapes();
    EXPECT_GT(warm.size(), 50u);
    for (int count : {1, 2, 7, 20}) {
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (int i = 0; i < count; ++i) {
        GenerateRequest request;
        request.model = model;
        request.prompt = "Some words to go on from.";
        request.limits.max_new_tokens = 40;
        request.decoding = GreedyOptions();
        sinks.push_back(std::make_shared<RecordingSink>());
        replica.Submit(request, sinks.back());
      }
      for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());
      // Encoder inputs that come together are not recorded in advance.
      if (count == 1 || model == "write-en") {
        EXPECT_EQ(replica.backend().shapes(), warm) << model << " " << count;
      }
    }
  }
}

// The transformer CHECKs that no step is larger than its limits.
TEST(RehearseUsualTest, KeepToTheLimitsOfFewSequences) {
  for (const std::string& model : Generators()) {
    ModelOptions options = Demo(model);
    options.max_sequences = 3;
    options.max_batch_tokens = 16;
    LateReplica replica(options);
    const auto report =
        RehearseUsual(replica.limits(), replica.transformer(), replica.backend(), kLong);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->complete);
    EXPECT_GT(report->num_steps, 0);
  }
}

TEST(RehearseUsualTest, EndsWhenItsTimeIsUpAndWhenTheDeviceBreaks) {
  LateReplica replica("write-en");
  auto report = RehearseUsual(replica.limits(), replica.transformer(), replica.backend(),
                              std::chrono::nanoseconds(0));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->num_steps, 0);
  EXPECT_FALSE(report->complete);
  replica.backend().BreakAfter(-1);
  report = RehearseUsual(replica.limits(), replica.transformer(), replica.backend(), kLong);
  EXPECT_EQ(report.status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace beamline::rehearsal_test
