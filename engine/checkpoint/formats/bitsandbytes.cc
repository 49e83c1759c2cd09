#include "engine/checkpoint/formats/bitsandbytes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>

#include "base/in_parts.h"
#include "base/json.h"
#include "base/math.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr std::string_view kNf4State = "weight.quant_state.bitsandbytes__nf4";
constexpr std::string_view kFp4State = "weight.quant_state.bitsandbytes__fp4";
constexpr std::array<std::string_view, 7> k4BitSuffixes = {
    "weight.absmax",           "weight",  "weight.quant_map", "weight.nested_absmax",
    "weight.nested_quant_map", kNf4State, kFp4State};
constexpr std::array<std::string_view, 3> k8BitSuffixes = {"SCB", "weight", "weight_format"};
constexpr size_t kNumCodes = 16, kNumNestedCodes = 256;
constexpr int64_t kMostSize = int64_t{1} << 31;

// What quant_state says of a module's weight.
struct State {
  int64_t out = 0, in = 0;
  int64_t block_size = 0;  // values of the flattened matrix that share a scale
  DType dtype = DType::kFloat16;
  // The scales are codes of a second table: scales that share one of its scales, and what is added.
  bool is_nested = false;
  int64_t nested_block_size = 0;
  float offset = 0;
};

absl::StatusOr<int64_t> SizeField(const StoredTensor& stored, const nlohmann::json& state,
                                  const char* name) {
  const auto found = state.find(name);
  const auto size = found == state.end() ? std::nullopt : WholeNumber(*found, 1, kMostSize);
  if (size.has_value()) return *size;
  return TensorFault(stored,
                     fmt::format("{} is {}; accepted: 1 to {}", name,
                                 found == state.end() ? "missing" : found->dump(), kMostSize));
}

absl::StatusOr<State> StateOf(const ModuleTensors& module) {
  const std::string_view name = module.Has(kFp4State) ? kFp4State : kNf4State;
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, module.Find(name, {"U8"}));
  const std::string_view text(reinterpret_cast<const char*>(stored.bytes.data()),
                              stored.bytes.size());
  auto parsed = ParseJsonObject(text, stored.name);
  if (!parsed.ok()) return TensorFault(stored, std::string(parsed.status().message()));
  State state;
  BEAMLINE_ASSIGN_OR_RETURN(state.block_size, SizeField(stored, *parsed, "blocksize"));
  const nlohmann::json shape = parsed->value("shape", nlohmann::json());
  if (!shape.is_array() || shape.size() != 2 || !WholeNumber(shape[0], 1, kMostSize) ||
      !WholeNumber(shape[1], 1, kMostSize)) {
    return TensorFault(stored, fmt::format("shape is {}; accepted: two sizes", shape.dump()));
  }
  state.out = *WholeNumber(shape[0], 1, kMostSize);
  state.in = *WholeNumber(shape[1], 1, kMostSize);
  const nlohmann::json dtype = parsed->value("dtype", nlohmann::json());
  if (dtype == "bfloat16") {
    state.dtype = DType::kBFloat16;
  } else if (dtype == "float32") {
    state.dtype = DType::kFloat32;
  } else if (dtype != "float16") {
    return TensorFault(
        stored, fmt::format("dtype is {}; accepted: float32, float16, bfloat16", dtype.dump()));
  }
  state.is_nested = module.Has("weight.nested_absmax");
  if (state.is_nested) {
    BEAMLINE_ASSIGN_OR_RETURN(state.nested_block_size,
                              SizeField(stored, *parsed, "nested_blocksize"));
    const nlohmann::json offset = parsed->value("nested_offset", nlohmann::json());
    if (!offset.is_number() || !std::isfinite(offset.get<double>())) {
      return TensorFault(
          stored, fmt::format("nested_offset is {}; accepted: a finite number", offset.dump()));
    }
    state.offset = offset.get<float>();
  }
  return state;
}

absl::StatusOr<std::vector<float>> TableOf(const ModuleTensors& module, std::string_view suffix) {
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, module.Find(suffix, {"F32"}));
  std::vector<float> table = Floats(stored);
  if (std::ranges::all_of(table, [](float value) { return std::isfinite(value); })) return table;
  return TensorFault(stored, "holds NaN or infinity");
}

absl::StatusOr<std::vector<float>> ScalesOf(const ModuleTensors& module, const State& state) {
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, state.is_nested
                                                           ? module.Find("weight.absmax", {"U8"})
                                                           : module.Find("weight.absmax", {"F32"}));
  if (!state.is_nested) return Scales(stored, true);
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> table,
                            TableOf(module, "weight.nested_quant_map"));
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor nested,
                            module.Find("weight.nested_absmax", {"F32"}));
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> outer, Scales(nested, true));
  std::vector<float> scales(stored.bytes.size());
  for (size_t i = 0; i < scales.size(); ++i) {
    const float value = table[static_cast<uint8_t>(stored.bytes[i])];
    scales[i] = value * outer[i / static_cast<size_t>(state.nested_block_size)] + state.offset;
  }
  return scales;
}

}  // namespace

std::span<const std::string_view> Bnb4BitFormat::suffixes() const { return k4BitSuffixes; }

absl::StatusOr<MatrixShape> Bnb4BitFormat::Describe(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const State state, StateOf(module));
  const int64_t size = state.out * state.in, blocks = CeilDiv(size, state.block_size);
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor weight, module.Find("weight", {"U8"}));
  if (static_cast<int64_t>(weight.bytes.size()) != CeilDiv(size, 2)) {
    return TensorFault(weight, fmt::format("{} bytes are expected by its quant_state, found {}",
                                           CeilDiv(size, 2), weight.bytes.size()));
  }
  BEAMLINE_RETURN_IF_ERROR(
      module.Find("weight.quant_map", {"F32"}, {static_cast<int64_t>(kNumCodes)}).status());
  BEAMLINE_RETURN_IF_ERROR(
      module.Find("weight.absmax", {state.is_nested ? "U8" : "F32"}, {blocks}).status());
  if (state.is_nested) {
    BEAMLINE_RETURN_IF_ERROR(
        module.Find("weight.nested_absmax", {"F32"}, {CeilDiv(blocks, state.nested_block_size)})
            .status());
    BEAMLINE_RETURN_IF_ERROR(
        module.Find("weight.nested_quant_map", {"F32"}, {static_cast<int64_t>(kNumNestedCodes)})
            .status());
  }
  return MatrixShape{state.out, state.in, state.dtype};
}

absl::StatusOr<QuantizedMatrix> Bnb4BitFormat::Unpack(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const State state, StateOf(module));
  QuantizedMatrix matrix = {.out = state.out, .in = state.in, .dtype = state.dtype};
  BEAMLINE_ASSIGN_OR_RETURN(matrix.table, TableOf(module, "weight.quant_map"));
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor weight, module.Find("weight", {"U8"}));
  const int64_t size = state.out * state.in;
  matrix.codes.resize(static_cast<size_t>(size));
  constexpr size_t kValues = size_t{1} << 20;
  InParts(static_cast<size_t>(size), kValues, kFormatThreads, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const auto byte = static_cast<uint8_t>(weight.bytes[i / 2]);
      matrix.codes[i] = i % 2 == 0 ? byte >> 4 : byte & 15;
    }
  });
  BEAMLINE_ASSIGN_OR_RETURN(std::vector<float> scales, ScalesOf(module, state));
  if (state.in % state.block_size == 0) {
    matrix.group_size = state.block_size;
    matrix.scales = std::move(scales);
    return matrix;
  }
  // Blocks that cross rows: a scale a value.
  matrix.scales.resize(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) matrix.scales[i] = scales[i / state.block_size];
  return matrix;
}

std::span<const std::string_view> Bnb8BitFormat::suffixes() const { return k8BitSuffixes; }

absl::StatusOr<MatrixShape> Bnb8BitFormat::Describe(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor weight, module.Find("weight", {"I8"}));
  if (weight.shape.size() != 2 || weight.shape[0] == 0 || weight.shape[1] == 0) {
    return TensorFault(weight, "two dimensions are expected");
  }
  BEAMLINE_RETURN_IF_ERROR(module.Find("SCB", {"F32"}, {weight.shape[0]}).status());
  if (module.Has("weight_format")) {
    BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor format, module.Find("weight_format", {"U8"}));
    // 0 is by rows; others are orders of tiles that old versions of GPUs wanted.
    if (format.bytes.size() != 1 || format.bytes[0] != std::byte{0}) {
      return TensorFault(format, "is not 0; accepted: 0, weights by rows");
    }
  }
  return MatrixShape{weight.shape[0], weight.shape[1], dtype_};
}

absl::StatusOr<QuantizedMatrix> Bnb8BitFormat::Unpack(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const MatrixShape shape, Describe(module));
  QuantizedMatrix matrix = {.out = shape.out, .in = shape.in, .dtype = shape.dtype};
  matrix.group_size = shape.in;
  matrix.zero = 0x80;
  matrix.factor = 7.874015718698502e-3f;  // 1 / 127, after the product, as the reference
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor weight, module.Find("weight", {"I8"}));
  matrix.codes.resize(weight.bytes.size());
  std::memcpy(matrix.codes.data(), weight.bytes.data(), weight.bytes.size());
  for (uint8_t& code : matrix.codes) code ^= 0x80;
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scales, module.Find("SCB", {"F32"}));
  BEAMLINE_ASSIGN_OR_RETURN(matrix.scales, Scales(scales, true));
  return matrix;
}

}  // namespace beamline
