// A model whose settings leave its types open: what it has of the checkpoint's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/loading/loaded_model.h"
#include "engine/loading/model_precision.h"
#include "engine/transformer/float_conversion.h"
#include "kernels/cpu/cpu_backend.h"
#include "tests/engine/linked_model.h"
#include "tests/engine/random_model.h"

namespace beamline::stored_types_test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const char* Code(DType dtype) {
  return dtype == DType::kFloat32 ? "F32" : dtype == DType::kFloat16 ? "F16" : "BF16";
}

// A folder's tensors, the one of each place in the type of that place, from the first on again.
std::string Stored(const Checkpoint& checkpoint, const std::vector<DType>& types) {
  nlohmann::json header;
  std::vector<std::byte> data;
  size_t place = 0;
  for (const std::string& name : checkpoint.TensorNames()) {
    const auto tensor = checkpoint.Find(name);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    const DType dtype = types[place++ % types.size()];
    const size_t begin = data.size();
    AppendConverted(tensor->data, tensor->size / SizeOf(tensor->dtype), tensor->dtype, dtype, data);
    header[name] = {
        {"dtype", Code(dtype)}, {"shape", tensor->shape}, {"data_offsets", {begin, data.size()}}};
  }
  std::string bytes = SafetensorsBytes(header.dump(), data.size());
  std::memcpy(bytes.data() + bytes.size() - data.size(), data.data(), data.size());
  return bytes;
}

std::unique_ptr<Checkpoint> Open(const std::string& folder) {
  auto checkpoint = Checkpoint::Open(folder);
  EXPECT_TRUE(checkpoint.ok()) << checkpoint.status();
  return *std::move(checkpoint);
}

void Store(const LinkedModel& model, const std::vector<DType>& types) {
  const std::unique_ptr<Checkpoint> checkpoint = Open(model.Options("model").folder);
  model.WriteBytes("model.safetensors", Stored(*checkpoint, types));
}

std::unique_ptr<LoadedModel> Load(ModelOptions options, std::optional<DType> dtype) {
  options.device = "cpu";
  options.dtype = dtype;
  auto model = LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Of a made-up prompt of a generator.
std::vector<float> Logits(LoadedModel& model) {
  constexpr int32_t kTokens = 7;
  StepBatch step;
  for (int32_t position = 0; position < kTokens; ++position) {
    step.token_ids.push_back((position * 37 + 11) % 60);
    step.positions.push_back(position);
    step.slots.push_back(position);
    step.logits_rows.push_back(position);
  }
  step.query_offsets = {0, kTokens};
  step.context_lengths = {kTokens};
  step.block_tables = {0};
  step.max_blocks = 1;
  const Tensor logits = model.transformer->Decode(step);
  std::vector<float> values;
  for (int64_t row = 0; row < logits.num_rows(); ++row) {
    const float* const first = logits.row<float>(row);
    values.insert(values.end(), first, first + logits.dim(-1));
  }
  return values;
}

size_t HeldWeights(const LoadedModel& model) {
  for (const MemoryUse& use : model.backend->MemoryUsage()) {
    if (use.name == "weights") return use.bytes;
  }
  return 0;
}

// Loads both, and compares what they compute and what the plan says of them.
void ExpectTheSameInLess(const ModelOptions& options, double most_share) {
  const auto wide = Load(options, DType::kFloat32);
  const auto kept = Load(options, std::nullopt);
  EXPECT_EQ(Logits(*kept), Logits(*wide));
  EXPECT_EQ(kept->info.dtype, DType::kFloat32);
  EXPECT_EQ(kept->info.num_parameters, wide->info.num_parameters);
  EXPECT_EQ(wide->memory.weights, wide->info.weight_bytes);
  EXPECT_EQ(kept->memory.weights, kept->info.weight_bytes);
  EXPECT_EQ(kept->memory.cache, wide->memory.cache);
  const auto share = [](auto bytes, auto of_wide) {
    return static_cast<double>(bytes) / static_cast<double>(of_wide);
  };
  EXPECT_LT(share(kept->info.weight_bytes, wide->info.weight_bytes), most_share);
  EXPECT_LT(share(HeldWeights(*kept), HeldWeights(*wide)), most_share);
}

// Tables of tokens and positions are float32 in either: a third of write-en's numbers.
TEST(StoredTypesTest, SixteenBitsComputeAsFloat32InLessMemory) {
  const LinkedModel brain("models/write-en");
  ExpectTheSameInLess(brain.Options("brain"), 0.7);
  const LinkedModel half("models/write-en");
  Store(half, {DType::kFloat16});
  ExpectTheSameInLess(half.Options("half"), 0.7);
}

TEST(StoredTypesTest, EachMatrixHasItsOwnType) {
  const LinkedModel mixed("models/write-en");
  Store(mixed, {DType::kBFloat16, DType::kFloat32, DType::kFloat16});
  ExpectTheSameInLess(mixed.Options("mixed"), 0.9);
  // The parts of one product in several types: it is as wide as all of them.
  const RandomStack parts("llama-6of2x10-llama3", 93, /*with_template=*/false);
  Store(parts, {DType::kBFloat16, DType::kFloat16, DType::kFloat32});
  const auto wide = Load(parts.Options("parts"), DType::kFloat32);
  const auto kept = Load(parts.Options("parts"), std::nullopt);
  EXPECT_EQ(Logits(*kept), Logits(*wide));
  EXPECT_LT(kept->info.weight_bytes, wide->info.weight_bytes);
}

TEST(StoredTypesTest, AnExplicitTypeKeepsItsMeaning) {
  const LinkedModel brain("models/write-en");
  const auto checkpoint = Open(brain.Options("m").folder);
  ModelOptions options;
  for (const bool on_gpu : {false, true}) {
    options.dtype = DType::kFloat32;
    EXPECT_EQ(TypesOf(options, *checkpoint, on_gpu), ModelTypes(DType::kFloat32));
    options.dtype = DType::kFloat16;
    EXPECT_EQ(TypesOf(options, *checkpoint, on_gpu), ModelTypes(DType::kFloat16));
  }
  options.dtype = DType::kBFloat16;
  options.compute = "float32";
  EXPECT_EQ(TypesOf(options, *checkpoint, false),
            Precision(DType::kBFloat16, DType::kFloat32, std::nullopt));
  options.weights = "float16";
  options.cache = "bfloat16";
  EXPECT_EQ(TypesOf(options, *checkpoint, false),
            Precision(DType::kFloat16, DType::kFloat32, DType::kBFloat16));
}

TEST(StoredTypesTest, WhatIsOpenGoesWithWhatIsSet) {
  const LinkedModel brain("models/write-en");
  const auto checkpoint = Open(brain.Options("m").folder);
  ModelOptions options;
  ModelTypes kept = DType::kFloat32;
  kept.keeps_stored = true;
  EXPECT_EQ(TypesOf(options, *checkpoint, false), kept);
  EXPECT_EQ(TypesOf(options, *checkpoint, true), ModelTypes(DType::kBFloat16));
  options.compute = "bfloat16";
  EXPECT_EQ(TypesOf(options, *checkpoint, false), ModelTypes(DType::kBFloat16));
  options.compute = "float16";
  EXPECT_EQ(TypesOf(options, *checkpoint, true), ModelTypes(DType::kFloat16));
  options.compute = "";
  options.weights = "float16";
  EXPECT_EQ(TypesOf(options, *checkpoint, true), ModelTypes(DType::kFloat16));
  EXPECT_EQ(TypesOf(options, *checkpoint, false),
            Precision(DType::kFloat16, DType::kFloat32, std::nullopt));
  options.weights = "int8";
  EXPECT_EQ(TypesOf(options, *checkpoint, false),
            Precision(DType::kInt8, DType::kFloat32, std::nullopt));
  options.compute = "int8";
  EXPECT_EQ(TypesOf(options, *checkpoint, false), ModelTypes(DType::kInt8));
  options.weights = "";
  EXPECT_EQ(TypesOf(options, *checkpoint, false), ModelTypes(DType::kInt8));
  options.compute = "";
  options.weights = "int4";  // refused elsewhere
  options.cache = "float16";
  kept.precision.cache = DType::kFloat16;
  EXPECT_EQ(TypesOf(options, *checkpoint, false), kept);
}

TEST(StoredTypesTest, AGpuComputesInTheCheckpointsOwnType) {
  const auto own = [](const std::vector<DType>& stored, const nlohmann::json& config) {
    const LinkedModel model("tests/golden/random/llama-6of2x10-llama3");
    Store(model, stored);
    nlohmann::json keys = {{"dtype", nullptr}, {"torch_dtype", nullptr}};
    if (!config.empty()) keys.update(config);
    model.Change("config.json", keys);
    return OwnType(*Open(model.Options("m").folder));
  };
  const DType wide = DType::kFloat32, brain = DType::kBFloat16, half = DType::kFloat16;
  // Without a type in config.json the one of most numbers.
  for (const DType stored : {wide, brain, half}) EXPECT_EQ(own({stored}, {}), stored);
  EXPECT_EQ(own({brain, brain, brain, brain, half}, {}), brain);
  for (const char* const field : {"dtype", "torch_dtype"}) {
    EXPECT_EQ(own({brain}, {{field, "bfloat16"}}), brain);
    EXPECT_EQ(own({half}, {{field, "torch.float16"}}), half);
    EXPECT_EQ(own({half}, {{field, "float32"}}), wide);
    EXPECT_EQ(own({half}, {{field, "bfloat16"}}), brain);
    // What is stored goes before a type that cannot hold it.
    EXPECT_EQ(own({wide}, {{field, "bfloat16"}}), wide);
    EXPECT_EQ(own({brain}, {{field, "float16"}}), brain);
    EXPECT_EQ(own({half}, {{field, "float8"}}), half);
    EXPECT_EQ(own({half}, {{field, 16}}), half);
  }
  EXPECT_EQ(own({half}, {{"dtype", "bfloat16"}, {"torch_dtype", "float32"}}), brain);
}

TEST(StoredTypesTest, TheLogSaysWhatIsChosenAndWhatIsFaster) {
  const auto backend = MakeCpuBackend({.num_threads = 1});
  const LinkedModel brain("models/write-en");
  const auto checkpoint = Open(brain.Options("m").folder);
  ModelOptions options;
  const std::string kept = TypesNote(options, *checkpoint, false, *backend);
  EXPECT_THAT(kept, StartsWith("dtype is auto: products in float32, weights as stored (bfloat16)"));
  const auto faster = HasSubstr("; dtype=bfloat16 would be faster");
  if (backend->SupportsDType(DType::kBFloat16).ok()) {
    EXPECT_THAT(kept, faster);
  } else {
    EXPECT_THAT(kept, Not(faster));
  }
  EXPECT_EQ(TypesNote(options, *checkpoint, true, *backend),
            "dtype is auto: products in bfloat16, weights in bfloat16, the checkpoint's own type");
  options.weights = "float16";
  EXPECT_THAT(TypesNote(options, *checkpoint, false, *backend),
              StartsWith("dtype is auto: products in float32, weights in float16"));
  options.dtype = DType::kFloat32;
  EXPECT_EQ(TypesNote(options, *checkpoint, false, *backend), "");
}

// The head of masks has the table of tokens once more.
TEST(StoredTypesTest, AHeadOfMasksIsKeptAsStored) {
  const LinkedModel model("tests/golden/classifiers/roberta-3x8-masks");
  const auto logits = [](LoadedModel& of) {
    std::vector<float> row(static_cast<size_t>(of.info.hidden_size)), all;
    for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 7) / 7.0f - 0.4f;
    EXPECT_NE(of.heads.mask, nullptr);
    EXPECT_TRUE(of.heads.mask
                    ->Compute(row,
                              [&](size_t, std::span<const float> logits) {
                                all.assign(logits.begin(), logits.end());
                              })
                    .ok());
    return all;
  };
  const auto wide = Load(model.Options("wide"), DType::kFloat32);
  const auto kept = Load(model.Options("kept"), std::nullopt);
  EXPECT_EQ(logits(*kept), logits(*wide));
  EXPECT_LT(kept->heads.mask->weight_bytes() * 10, wide->heads.mask->weight_bytes() * 6);
}

}  // namespace
}  // namespace beamline::stored_types_test
