#include "engine/checkpoint/formats/scaled_values.h"

#include <algorithm>
#include <cstring>

#include "base/math.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr uint8_t kE4m3Nan = 0x7f;

// Rows and columns that share a scale.
struct Blocks {
  int64_t rows = 1, cols = 1;
};

Blocks BlocksOf(const WeightScheme& scheme, int64_t out, int64_t in) {
  switch (scheme.strategy) {
    case WeightScheme::Strategy::kTensor:
      return {out, in};
    case WeightScheme::Strategy::kChannel:
      return {1, in};
    case WeightScheme::Strategy::kGroup:
      return {1, scheme.group_size};
    case WeightScheme::Strategy::kBlock:
      return {scheme.block_rows, scheme.block_cols};
  }
  return {};
}

}  // namespace

absl::StatusOr<MatrixShape> ScaledValueFormat::Describe(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const WeightScheme scheme, scheme_of_(module.name()));
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor weight,
                            module.Find("weight", {scheme.is_float ? "F8_E4M3" : "I8"}));
  if (weight.shape.size() != 2 || weight.shape[0] == 0 || weight.shape[1] == 0) {
    return TensorFault(weight, fmt::format("two dimensions are expected, found [{}]",
                                           fmt::join(weight.shape, ", ")));
  }
  const int64_t out = weight.shape[0], in = weight.shape[1];
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scales,
                            module.Find(scale(), {"F32", "BF16", "F16"}));
  const Blocks blocks = BlocksOf(scheme, out, in);
  const std::vector<int64_t> shape = {CeilDiv(out, blocks.rows), CeilDiv(in, blocks.cols)};
  const bool is_scalar = scheme.strategy == WeightScheme::Strategy::kTensor &&
                         scales.bytes.size() == SizeOf(FloatType(scales));
  // One a row may be stored with or without the dimension of 1.
  const bool is_vector = blocks.cols == in && scales.shape == std::vector<int64_t>{shape[0]};
  if (!is_scalar && !is_vector && scales.shape != shape) {
    return TensorFault(scales,
                       fmt::format("shape [{}] is expected by quantization_config, found [{}]",
                                   fmt::join(shape, ", "), fmt::join(scales.shape, ", ")));
  }
  if (!scheme.is_symmetric) {
    BEAMLINE_RETURN_IF_ERROR(module.Find("weight_zero_point", {"I8"}, scales.shape).status());
  }
  return MatrixShape{out, in, dtype_.value_or(FloatType(scales))};
}

absl::StatusOr<QuantizedMatrix> ScaledValueFormat::Unpack(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const WeightScheme scheme, scheme_of_(module.name()));
  BEAMLINE_ASSIGN_OR_RETURN(const MatrixShape shape, Describe(module));
  const Blocks blocks = BlocksOf(scheme, shape.out, shape.in);
  QuantizedMatrix matrix = {.out = shape.out, .in = shape.in, .dtype = shape.dtype};
  matrix.rows_per_block = blocks.rows;
  matrix.group_size = blocks.cols;
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor weight, module.Find("weight", {"F8_E4M3", "I8"}));
  matrix.codes.resize(weight.bytes.size());
  std::memcpy(matrix.codes.data(), weight.bytes.data(), weight.bytes.size());
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scales,
                            module.Find(scale(), {"F32", "BF16", "F16"}));
  BEAMLINE_ASSIGN_OR_RETURN(matrix.scales, Scales(scales, scheme.is_float));
  if (scheme.is_float) {
    const auto nan = std::ranges::find_if(
        matrix.codes, [](uint8_t code) { return (code & kE4m3Nan) == kE4m3Nan; });
    if (nan != matrix.codes.end()) return TensorFault(weight, "holds NaN or infinity");
    matrix.table = E4m3Values();
    return matrix;
  }
  // Signed numbers and zero points become codes from 0 on.
  const auto shift = [](uint8_t& code) { code ^= 0x80; };
  std::ranges::for_each(matrix.codes, shift);
  matrix.zero = 0x80;
  if (!scheme.is_symmetric) {
    BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor zeros, module.Find("weight_zero_point", {"I8"}));
    matrix.zeros.resize(zeros.bytes.size());
    std::memcpy(matrix.zeros.data(), zeros.bytes.data(), zeros.bytes.size());
    std::ranges::for_each(matrix.zeros, shift);
  }
  return matrix;
}

}  // namespace beamline
