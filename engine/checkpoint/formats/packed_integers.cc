#include "engine/checkpoint/formats/packed_integers.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/in_parts.h"
#include "base/math.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr std::array<std::string_view, 5> kPackedSuffixes = {
    "weight_packed", "weight_scale", "weight_shape", "weight_zero_point", "weight_g_idx"};

struct PackedLayout {
  WeightScheme scheme;
  int64_t in = 0, out = 0, words = 0, group_size = 0, num_groups = 0;
  DType dtype = DType::kBFloat16;
};

absl::StatusOr<PackedLayout> PackedLayoutOf(const ModuleTensors& module,
                                            const WeightScheme& scheme) {
  PackedLayout layout = {.scheme = scheme};
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor shape,
                            module.Find("weight_shape", {"I64", "I32"}, {2}));
  std::array<int64_t, 2> sizes = {};
  if (shape.dtype == "I64") {
    std::memcpy(sizes.data(), shape.bytes.data(), sizeof(sizes));
  } else {
    std::array<int32_t, 2> narrow = {};
    std::memcpy(narrow.data(), shape.bytes.data(), sizeof(narrow));
    std::ranges::copy(narrow, sizes.begin());
  }
  layout.out = sizes[0];
  layout.in = sizes[1];
  constexpr int64_t kMostSize = int64_t{1} << 31;
  if (layout.out < 1 || layout.in < 1 || layout.out > kMostSize || layout.in > kMostSize) {
    return TensorFault(shape, fmt::format("holds {} x {}; accepted: 1 to {} each", layout.out,
                                          layout.in, kMostSize));
  }
  layout.words = CeilDiv(layout.in * scheme.bits, 32);
  BEAMLINE_RETURN_IF_ERROR(
      module.Find("weight_packed", {"I32"}, {layout.out, layout.words}).status());
  layout.group_size =
      scheme.strategy == WeightScheme::Strategy::kGroup ? scheme.group_size : layout.in;
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scale,
                            module.Find("weight_scale", {"BF16", "F16", "F32"}));
  if (layout.in % layout.group_size != 0) {
    return TensorFault(shape, fmt::format("{} inputs are no multiple of the group_size {} of "
                                          "quantization_config",
                                          layout.in, layout.group_size));
  }
  layout.num_groups = layout.in / layout.group_size;
  if (scheme.strategy == WeightScheme::Strategy::kTensor) {
    BEAMLINE_RETURN_IF_ERROR(module.Find("weight_scale", {scale.dtype}, {1}).status());
  } else {
    BEAMLINE_RETURN_IF_ERROR(
        module.Find("weight_scale", {scale.dtype}, {layout.out, layout.num_groups}).status());
  }
  if (!scheme.is_symmetric) {
    BEAMLINE_RETURN_IF_ERROR(module
                                 .Find("weight_zero_point", {"I32"},
                                       {CeilDiv(layout.out * scheme.bits, 32), layout.num_groups})
                                 .status());
  }
  if (module.Has("weight_g_idx")) {
    BEAMLINE_RETURN_IF_ERROR(module.Find("weight_g_idx", {"I32", "I64"}, {layout.in}).status());
  }
  layout.dtype = FloatType(scale);
  return layout;
}

// weight_g_idx; nothing where it is unset, which its writers fill with -1.
absl::StatusOr<std::vector<int32_t>> ActOrderOf(const ModuleTensors& module, int64_t num_groups) {
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, module.Find("weight_g_idx", {"I32", "I64"}));
  std::vector<int64_t> groups(static_cast<size_t>(stored.shape[0]));
  if (stored.dtype == "I64") {
    std::memcpy(groups.data(), stored.bytes.data(), groups.size() * sizeof(int64_t));
  } else {
    for (size_t i = 0; const uint32_t word : Words(stored)) {
      groups[i++] = static_cast<int32_t>(word);
    }
  }
  if (std::ranges::all_of(groups, [](int64_t group) { return group == -1; })) {
    return std::vector<int32_t>();
  }
  const auto fault =
      std::ranges::find_if(groups, [&](int64_t group) { return group < 0 || group >= num_groups; });
  if (fault != groups.end()) {
    return TensorFault(stored, fmt::format("group {} of input {}; accepted: 0 to {}", *fault,
                                           fault - groups.begin(), num_groups - 1));
  }
  return std::vector<int32_t>(groups.begin(), groups.end());
}

}  // namespace

std::span<const std::string_view> PackedIntegerFormat::suffixes() const { return kPackedSuffixes; }

absl::StatusOr<MatrixShape> PackedIntegerFormat::Describe(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const WeightScheme scheme, scheme_of_(module.name()));
  BEAMLINE_ASSIGN_OR_RETURN(const PackedLayout layout, PackedLayoutOf(module, scheme));
  return MatrixShape{layout.out, layout.in, layout.dtype};
}

absl::StatusOr<QuantizedMatrix> PackedIntegerFormat::Unpack(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const WeightScheme scheme, scheme_of_(module.name()));
  BEAMLINE_ASSIGN_OR_RETURN(const PackedLayout layout, PackedLayoutOf(module, scheme));
  const int64_t in = layout.in, out = layout.out, groups = layout.num_groups;
  QuantizedMatrix matrix = {.out = out, .in = in, .dtype = layout.dtype};
  matrix.group_size = layout.group_size;
  if (scheme.strategy == WeightScheme::Strategy::kTensor) matrix.rows_per_block = out;
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, module.Find("weight_packed", {"I32"}));
  const std::vector<uint32_t> words = Words(stored);
  matrix.codes.resize(static_cast<size_t>(out * in));
  constexpr size_t kRows = 16;
  InParts(static_cast<size_t>(out), kRows, kFormatThreads, [&](size_t begin, size_t end) {
    for (auto o = static_cast<int64_t>(begin); o < static_cast<int64_t>(end); ++o) {
      const BitReader codes(words.data() + o * layout.words, 1, scheme.bits);
      for (int64_t i = 0; i < in; ++i) matrix.codes[o * in + i] = codes[i];
    }
  });
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scale,
                            module.Find("weight_scale", {"BF16", "F16", "F32"}));
  BEAMLINE_ASSIGN_OR_RETURN(matrix.scales, Scales(scale, false));
  // Numbers are stored with this added, zero points too.
  matrix.zero = static_cast<uint8_t>(1 << (scheme.bits - 1));
  if (!scheme.is_symmetric) {
    BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor packed, module.Find("weight_zero_point", {"I32"}));
    const std::vector<uint32_t> zeros = Words(packed);
    matrix.zeros.resize(static_cast<size_t>(out * groups));
    for (int64_t group = 0; group < groups; ++group) {
      const BitReader fields(zeros.data() + group, groups, scheme.bits);
      for (int64_t o = 0; o < out; ++o) matrix.zeros[o * groups + group] = fields[o];
    }
  }
  if (module.Has("weight_g_idx")) {
    BEAMLINE_ASSIGN_OR_RETURN(matrix.group_of_column, ActOrderOf(module, groups));
  }
  return matrix;
}

}  // namespace beamline
