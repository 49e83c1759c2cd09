// Models that compute NaN or infinity: the request that meets them fails, alone.
#include "engine/serving/finite_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/safetensors.h"
#include "tests/engine/demo_engine.h"
#include "tests/engine/late_replica.h"
#include "tests/scratch_path.h"

namespace beamline::finite_check_test {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int64_t kBadPosition = 40;
constexpr uint16_t kHuge = 0x7F7F;  // the largest bfloat16

// A copy of a demo model whose position table, bfloat16, holds numbers in row kBadPosition that
// loading accepts and no norm can square.
class DoctoredModel {
 public:
  DoctoredModel(const std::string& name, const std::string& position_table) {
    folder_ = ScratchPath("doctored-" + name);
    fs::remove_all(folder_);
    fs::copy(Demo(name).folder, folder_, fs::copy_options::recursive);
    const fs::path file = folder_ / "model.safetensors";
    std::string bytes = Read(file);
    Overwrite(bytes, position_table);
    fs::remove(file);  // not through a link into the demo models
    std::ofstream(file, std::ios::binary) << bytes;
  }
  ~DoctoredModel() { fs::remove_all(folder_); }

  ModelOptions Options(const std::string& name) const {
    ModelOptions options = Demo(name);
    options.folder = folder_.string();
    return options;
  }
  std::unique_ptr<Engine> Serve(const std::string& name) const {
    EngineOptions options;
    options.models = {Options(name)};
    options.gpu_memory = kTestGpuMemory;
    auto engine = Engine::Create(options);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }

 private:
  static std::string Read(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  static void Overwrite(std::string& bytes, const std::string& tensor) {
    const auto entries = ParseSafetensors(std::as_bytes(std::span(bytes)), "model.safetensors");
    ASSERT_TRUE(entries.ok()) << entries.status();
    for (const SafetensorsEntry& entry : *entries) {
      if (entry.name != tensor) continue;
      ASSERT_EQ(entry.dtype_name, "BF16");
      const int64_t width = entry.shape[1];
      const auto begin = reinterpret_cast<const char*>(entry.bytes.data()) - bytes.data();
      for (int64_t i = kBadPosition * width; i < (kBadPosition + 1) * width; ++i) {
        std::memcpy(bytes.data() + begin + i * 2, &kHuge, sizeof(kHuge));
      }
      return;
    }
    FAIL() << "no tensor " << tensor;
  }

  fs::path folder_;
};

void ExpectNotFinite(const absl::Status& status, const std::string& model) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
  EXPECT_EQ(status.message(),
            "model '" + model +
                "' computed NaN or infinity for this request in float32: its "
                "numbers pass 3e38, where the type ends, or its weights are damaged");
  EXPECT_TRUE(status.GetPayload(kPublicErrorPayload).has_value());
}

TEST(FiniteCheckTest, FindsEveryKind) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const float bad : {kInf, -kInf, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(19, std::numeric_limits<float>::max());
    EXPECT_TRUE(AreFinite(values));
    values[17] = bad;
    EXPECT_FALSE(AreFinite(values));
    std::vector<RowResult> rows(3);
    EXPECT_TRUE(AreFinite(rows));
    rows[2].log_normalizer = bad;
    EXPECT_FALSE(AreFinite(rows));
  }
  EXPECT_TRUE(AreFinite(std::span<const float>()));
}

TEST(FiniteCheckTest, NamesTheTypeAndThoseThatHoldMore) {
  const absl::Status status = NotFiniteError("t5", DType::kFloat16);
  EXPECT_EQ(status.message(),
            "model 't5' computed NaN or infinity for this request in float16: float16, which ends "
            "at 65504, is most often too small for it; serve it with dtype=bfloat16 or "
            "dtype=float32, which end at 3e38");
  EXPECT_TRUE(status.GetPayload(kPublicErrorPayload).has_value());
  EXPECT_THAT(std::string(NotFiniteError("t5", DType::kBFloat16).message()),
              HasSubstr("in bfloat16: its numbers pass 3e38"));
}

TEST(FiniteCheckTest, AGeneratorFailsTheRequestThatGetsThereAlone) {
  const DoctoredModel doctored("write-en", "transformer.wpe.weight");
  const auto engine = doctored.Serve("write-en");
  std::vector<GenerateRequest> requests;
  for (int i = 0; i < 12; ++i) {
    requests.push_back(Write("Package: lib", i % 2 == 0 ? 8 : 60));
    requests.back().limits.ignore_eos = true;
    if (i % 3 == 1) requests.back().decoding = BeamOptions{.width = 4};
    if (i % 3 == 2) requests.back().decoding = SamplingOptions{.seed = 9, .num_sequences = 2};
  }
  const auto results = RunTogether(requests, *engine);
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i % 2 == 1) {
      ExpectNotFinite(results[i].status(), "write-en");
      continue;
    }
    ASSERT_TRUE(results[i].ok()) << results[i].status();
    const auto expected = SharedEngine().GenerateAndWait(requests[i]);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(results[i]->sequences[0].ids, expected->sequences[0].ids);
  }
  const auto stats = engine->Stats("write-en");
  ASSERT_TRUE(stats.ok());
  EXPECT_TRUE(stats->can_answer);
}

// Steps are launched behind those whose results turn out not to be numbers.
TEST(FiniteCheckTest, RunningAheadOfThem) {
  const DoctoredModel doctored("write-en", "transformer.wpe.weight");
  LateReplica replica(doctored.Options("write-en"));
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int i = 0; i < 12; ++i) {
    GenerateRequest request = Write("Package: lib", i % 2 == 0 ? 8 : 60);
    request.limits.ignore_eos = true;
    if (i % 3 == 1) request.decoding = BeamOptions{.width = 4};
    if (i % 3 == 2) request.decoding = SamplingOptions{.seed = 9, .num_sequences = 2};
    sinks.push_back(std::make_shared<RecordingSink>());
    replica.Submit(request, sinks.back());
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    const auto result = sinks[i]->Wait();
    if (i % 2 == 1) {
      ExpectNotFinite(result.status(), "write-en");
    } else {
      EXPECT_TRUE(result.ok()) << result.status();
    }
  }
  EXPECT_TRUE(replica.WaitForAll());
  EXPECT_TRUE(replica.fault().status().ok());
}

TEST(FiniteCheckTest, AStreamKeepsWhatItGotAndEndsWithTheError) {
  const DoctoredModel doctored("write-en", "transformer.wpe.weight");
  const auto engine = doctored.Serve("write-en");
  GenerateRequest request = Write("Package: lib", 60);
  request.limits.ignore_eos = true;
  auto sink = std::make_shared<RecordingSink>(/*stream=*/true);
  ASSERT_TRUE(engine->Generate(request, sink).ok());
  ExpectNotFinite(sink->Wait().status(), "write-en");
  const auto expected = SharedEngine().GenerateAndWait(request);
  ASSERT_TRUE(expected.ok());
  ASSERT_GT(sink->ids().size(), 10u);
  EXPECT_TRUE(
      std::equal(sink->ids().begin(), sink->ids().end(), expected->sequences[0].ids.begin()));
}

TEST(FiniteCheckTest, AnEncoderFailsTheRequestThatGetsThereAlone) {
  const DoctoredModel doctored("embed-en", "embeddings.position_embeddings.weight");
  const auto engine = doctored.Serve("embed-en");
  std::string longer;
  for (int i = 0; i < 60; ++i) longer += "word ";
  EncodeRequest request;
  request.model = "embed-en";
  for (const bool per_token : {false, true}) {
    request.per_token = per_token;
    request.inputs = {"a short text", "another one"};
    const auto good = engine->EncodeAndWait(request);
    ASSERT_TRUE(good.ok()) << good.status();
    const auto expected = SharedEngine().EncodeAndWait(request);
    ASSERT_TRUE(expected.ok());
    EXPECT_EQ(good->embeddings[1].values, expected->embeddings[1].values);
    request.inputs = {"a short text", longer, "another one"};
    ExpectNotFinite(engine->EncodeAndWait(request).status(), "embed-en");
  }
}

}  // namespace
}  // namespace beamline::finite_check_test
