#include "engine/checkpoint/formats/quantization_config.h"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "engine/checkpoint/formats/awq.h"
#include "engine/checkpoint/formats/bitsandbytes.h"
#include "engine/checkpoint/formats/compressed_tensors_config.h"
#include "engine/checkpoint/formats/config_fault.h"
#include "engine/checkpoint/formats/gptq.h"
#include "engine/checkpoint/formats/packed_integers.h"
#include "engine/checkpoint/formats/scaled_values.h"
#include "engine/checkpoint/json_file.h"
#include "fmt/format.h"

namespace beamline {
namespace {

using Formats = std::vector<std::unique_ptr<WeightFormat>>;
using Json = nlohmann::json;

constexpr int64_t kMostGroup = int64_t{1} << 20;

Json Field(const Json& config, const char* name) { return config.value(name, Json()); }

// -1: all inputs.
absl::StatusOr<int64_t> GroupSize(const Json& config) {
  const Json size = Field(config, "group_size");
  if (size == -1) return -1;
  const auto number = WholeNumber(size, 1, kMostGroup);
  if (number.has_value()) return *number;
  return ConfigFault("group_size", size, fmt::format("-1, 1 to {}", kMostGroup));
}

// What matrices are in that are stored with scales of float32: config.json's dtype.
DType ModelType(const Json& config) {
  for (const char* const name : {"dtype", "torch_dtype"}) {
    const Json word = Field(config, name);
    if (word == "float16" || word == "torch.float16") return DType::kFloat16;
    if (word == "float32" || word == "torch.float32") return DType::kFloat32;
  }
  return DType::kBFloat16;
}

absl::Status Check(const Json& config, const char* key,
                   std::span<const std::string_view> accepted) {
  const Json value = Field(config, key);
  if (value.is_null()) return absl::OkStatus();
  if (value.is_string()) {
    for (const std::string_view word : accepted) {
      if (value.get_ref<const std::string&>() == word) return absl::OkStatus();
    }
  }
  return ConfigFault(key, value, accepted);
}

absl::StatusOr<Formats> Awq(const Json& config, const Json&) {
  const Json bits = Field(config, "bits");
  if (bits != 4) return ConfigFault("bits", bits, "4");
  constexpr std::array<std::string_view, 2> kVersions = {"gemm", "GEMM"};
  BEAMLINE_RETURN_IF_ERROR(Check(config, "version", kVersions));
  BEAMLINE_ASSIGN_OR_RETURN(const int64_t group_size, GroupSize(config));
  Formats formats;
  formats.push_back(std::make_unique<AwqFormat>(group_size));
  return formats;
}

absl::StatusOr<Formats> Gptq(const Json& config, const Json&) {
  const Json bits = Field(config, "bits");
  if (bits != 2 && bits != 3 && bits != 4 && bits != 8) {
    return ConfigFault("bits", bits, "2, 3, 4, 8");
  }
  GptqConfig gptq = {.bits = bits.get<int>()};
  BEAMLINE_ASSIGN_OR_RETURN(gptq.group_size, GroupSize(config));
  constexpr std::array<std::string_view, 2> kVersions = {"gptq", "gptq_v2"};
  for (const char* const key : {"checkpoint_format", "format"}) {
    BEAMLINE_RETURN_IF_ERROR(Check(config, key, kVersions));
    if (Field(config, key) == "gptq_v2") gptq.is_v1 = false;
  }
  constexpr std::array<std::string_view, 1> kWords = {"int32"};
  BEAMLINE_RETURN_IF_ERROR(Check(config, "pack_dtype", kWords));
  Formats formats;
  formats.push_back(std::make_unique<GptqFormat>(gptq));
  return formats;
}

absl::StatusOr<Formats> CompressedTensors(const Json& config, const Json&) {
  BEAMLINE_ASSIGN_OR_RETURN(const auto schemes, CompressedTensorsConfig::Parse(config));
  const SchemeOf scheme_of = [schemes](const std::string& module) {
    return schemes->SchemeOf(module);
  };
  Formats formats;
  formats.push_back(std::make_unique<PackedIntegerFormat>(scheme_of));
  formats.push_back(std::make_unique<ScaledValueFormat>("weight_scale", std::nullopt, scheme_of));
  return formats;
}

// All modules have the same scheme.
Formats Fp8(std::string_view scale, WeightScheme scheme, DType dtype) {
  scheme.is_float = true;
  Formats formats;
  formats.push_back(std::make_unique<ScaledValueFormat>(
      scale, dtype, [scheme](const std::string&) { return absl::StatusOr<WeightScheme>(scheme); }));
  return formats;
}

absl::StatusOr<Formats> BlockFp8(const Json& config, const Json& model) {
  constexpr std::array<std::string_view, 1> kTypes = {"e4m3"};
  BEAMLINE_RETURN_IF_ERROR(Check(config, "fmt", kTypes));
  constexpr std::array<std::string_view, 2> kActivations = {"dynamic", "static"};
  BEAMLINE_RETURN_IF_ERROR(Check(config, "activation_scheme", kActivations));
  const Json block = Field(config, "weight_block_size");
  // Without blocks a scale a tensor.
  if (block.is_null()) {
    return Fp8("weight_scale", {.strategy = WeightScheme::Strategy::kTensor}, ModelType(model));
  }
  WeightScheme scheme = {.strategy = WeightScheme::Strategy::kBlock};
  if (block.is_array() && block.size() == 2) {
    scheme.block_rows = WholeNumber(block[0], 1, kMostGroup).value_or(0);
    scheme.block_cols = WholeNumber(block[1], 1, kMostGroup).value_or(0);
  }
  if (scheme.block_rows == 0 || scheme.block_cols == 0) {
    return ConfigFault("weight_block_size", block, "two sizes, [128, 128]");
  }
  return Fp8("weight_scale_inv", scheme, ModelType(model));
}

absl::StatusOr<Formats> FbgemmFp8(const Json&, const Json& model) {
  return Fp8("weight_scale", {.strategy = WeightScheme::Strategy::kChannel}, ModelType(model));
}

absl::StatusOr<Formats> ModelOpt(const Json& config, const Json& model) {
  // hf_quant_config.json has them one level deeper.
  const Json inner = Field(config, "quantization");
  const Json& fields = inner.is_object() ? inner : config;
  constexpr std::array<std::string_view, 2> kAlgorithms = {"FP8", "FP8_PER_CHANNEL_PER_TOKEN"};
  const Json algorithm = Field(fields, "quant_algo");
  if (algorithm != "FP8" && algorithm != "FP8_PER_CHANNEL_PER_TOKEN") {
    return ConfigFault("quant_algo", algorithm, kAlgorithms);
  }
  const bool by_tensor = algorithm == "FP8";
  return Fp8(
      "weight_scale",
      {.strategy = by_tensor ? WeightScheme::Strategy::kTensor : WeightScheme::Strategy::kChannel},
      ModelType(model));
}

absl::StatusOr<Formats> BitsAndBytes(const Json& config, const Json& model) {
  Formats formats;
  if (Field(config, "load_in_8bit") == true) {
    formats.push_back(std::make_unique<Bnb8BitFormat>(ModelType(model)));
  } else if (Field(config, "load_in_4bit") == true) {
    formats.push_back(std::make_unique<Bnb4BitFormat>());
  } else {
    return ConfigFault("load_in_4bit", Field(config, "load_in_4bit"), "true, or load_in_8bit true");
  }
  return formats;
}

struct Method {
  std::string_view name;
  absl::StatusOr<Formats> (*read)(const Json& config, const Json& model);
};
constexpr std::array<Method, 7> kMethods = {{{"awq", Awq},
                                             {"bitsandbytes", BitsAndBytes},
                                             {"compressed-tensors", CompressedTensors},
                                             {"fbgemm_fp8", FbgemmFp8},
                                             {"fp8", BlockFp8},
                                             {"gptq", Gptq},
                                             {"modelopt", ModelOpt}}};

// quantization_config, wherever it lies; null: none.
absl::StatusOr<Json> FindConfig(const Checkpoint& stored) {
  const Json config = Field(stored.config(), "quantization_config");
  if (!config.is_null()) return config;
  struct File {
    const char* name;
    const char* method;
  };
  for (const File& file :
       {File{"quantize_config.json", "gptq"}, File{"hf_quant_config.json", "modelopt"}}) {
    auto found = ReadJsonObject(stored.path() / file.name);
    if (absl::IsNotFound(found.status())) continue;
    BEAMLINE_ASSIGN_OR_RETURN(Json read, std::move(found));
    if (!read.contains("quant_method")) read["quant_method"] = file.method;
    return read;
  }
  return Json();
}

}  // namespace

absl::StatusOr<WeightFormats> WeightFormatsOf(const Checkpoint& stored) {
  BEAMLINE_ASSIGN_OR_RETURN(const Json config, FindConfig(stored));
  if (config.is_null()) return WeightFormats();
  std::array<std::string_view, kMethods.size()> names;
  const Json name = config.is_object() ? Field(config, "quant_method") : Json();
  for (size_t i = 0; i < kMethods.size(); ++i) {
    names[i] = kMethods[i].name;
    if (name != std::string(names[i])) continue;
    BEAMLINE_ASSIGN_OR_RETURN(Formats formats, kMethods[i].read(config, stored.config()));
    return WeightFormats{std::string(names[i]), std::move(formats)};
  }
  return ConfigFault("quant_method", name, names);
}

}  // namespace beamline
