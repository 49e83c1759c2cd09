#include "engine/checkpoint/formats/awq.h"

#include <array>

#include "base/in_parts.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr std::array<std::string_view, 3> kAwqSuffixes = {"qweight", "qzeros", "scales"};
constexpr int64_t kFieldsAWord = 8;
// Nibble kField[j] of a word belongs to output j of its eight.
constexpr std::array<int, kFieldsAWord> kField = {0, 4, 1, 5, 2, 6, 3, 7};

uint8_t NibbleOf(uint32_t word, int64_t output) {
  return static_cast<uint8_t>((word >> (4 * kField[output % kFieldsAWord])) & 15u);
}

}  // namespace

std::span<const std::string_view> AwqFormat::suffixes() const { return kAwqSuffixes; }

absl::StatusOr<MatrixShape> AwqFormat::Describe(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor codes, module.Find("qweight", {"I32"}));
  if (codes.shape.size() != 2 || codes.shape[0] == 0 || codes.shape[1] == 0) {
    return TensorFault(codes, "two dimensions are expected");
  }
  const int64_t in = codes.shape[0], words = codes.shape[1], out = words * kFieldsAWord;
  const int64_t group_size = group_size_ < 0 ? in : group_size_;
  if (in % group_size != 0) {
    return TensorFault(codes, fmt::format("{} inputs are no multiple of the group_size {} of "
                                          "quantization_config",
                                          in, group_size));
  }
  const int64_t groups = in / group_size;
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scales,
                            module.Find("scales", {"F16", "BF16", "F32"}, {groups, out}));
  BEAMLINE_RETURN_IF_ERROR(module.Find("qzeros", {"I32"}, {groups, words}).status());
  return MatrixShape{out, in, FloatType(scales)};
}

absl::StatusOr<QuantizedMatrix> AwqFormat::Unpack(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const MatrixShape shape, Describe(module));
  const int64_t in = shape.in, out = shape.out, words = out / kFieldsAWord;
  QuantizedMatrix matrix = {.out = out, .in = in, .dtype = shape.dtype};
  matrix.group_size = group_size_ < 0 ? in : group_size_;
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, module.Find("qweight", {"I32"}));
  const std::vector<uint32_t> codes = Words(stored);
  matrix.codes.resize(static_cast<size_t>(out * in));
  constexpr size_t kColumns = 16;  // of words, a cache line
  InParts(static_cast<size_t>(words), kColumns, kFormatThreads, [&](size_t begin, size_t end) {
    for (int64_t i = 0; i < in; ++i) {
      for (auto word = static_cast<int64_t>(begin); word < static_cast<int64_t>(end); ++word) {
        for (int64_t o = word * kFieldsAWord; o < (word + 1) * kFieldsAWord; ++o) {
          matrix.codes[o * in + i] = NibbleOf(codes[i * words + word], o);
        }
      }
    }
  });
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scales,
                            module.Find("scales", {"F16", "BF16", "F32"}));
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> by_group, Scales(scales, false));
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored_zeros, module.Find("qzeros", {"I32"}));
  const std::vector<uint32_t> zeros = Words(stored_zeros);
  const int64_t groups = matrix.num_groups();
  matrix.scales.resize(static_cast<size_t>(out * groups));
  matrix.zeros.resize(matrix.scales.size());
  for (int64_t o = 0; o < out; ++o) {
    for (int64_t group = 0; group < groups; ++group) {
      matrix.scales[o * groups + group] = by_group[group * out + o];
      matrix.zeros[o * groups + group] = NibbleOf(zeros[group * words + o / kFieldsAWord], o);
    }
  }
  return matrix;
}

}  // namespace beamline
