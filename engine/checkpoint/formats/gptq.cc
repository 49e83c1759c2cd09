#include "engine/checkpoint/formats/gptq.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/in_parts.h"
#include "base/math.h"
#include "base/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr std::array<std::string_view, 4> kGptqSuffixes = {"qweight", "qzeros", "scales", "g_idx"};
constexpr std::array<int, 4> kBits = {2, 3, 4, 8};

// 1 in the lowest bit of each field of a word, for widths that divide it.
uint32_t OneInEachField(int bits) {
  uint32_t ones = 0;
  for (int shift = 0; shift < 32; shift += bits) ones |= 1u << shift;
  return ones;
}

// [out, in] of words [in * bits / 32, out].
std::vector<uint8_t> CodesOf(const std::vector<uint32_t>& words, int bits, int64_t out,
                             int64_t in) {
  std::vector<uint8_t> codes(static_cast<size_t>(out * in));
  const int64_t num_words = in * bits / 32;
  // Columns of a cache line; the words of each are gathered first.
  constexpr size_t kColumns = 16;
  InParts(static_cast<size_t>(out), kColumns, kFormatThreads, [&](size_t begin, size_t end) {
    const auto columns = static_cast<int64_t>(end - begin);
    std::vector<uint32_t> own(static_cast<size_t>(columns * num_words));
    for (int64_t k = 0; k < num_words; ++k) {
      for (int64_t c = 0; c < columns; ++c) {
        own[c * num_words + k] = words[k * out + static_cast<int64_t>(begin) + c];
      }
    }
    for (int64_t c = 0; c < columns; ++c) {
      const BitReader fields(own.data() + c * num_words, 1, bits);
      uint8_t* const row = codes.data() + (static_cast<int64_t>(begin) + c) * in;
      for (int64_t i = 0; i < in; ++i) row[i] = fields[i];
    }
  });
  return codes;
}

absl::StatusOr<std::vector<int32_t>> GroupsOf(const StoredTensor& g_idx, int64_t num_groups) {
  std::vector<int32_t> groups(g_idx.bytes.size() / sizeof(int32_t));
  std::memcpy(groups.data(), g_idx.bytes.data(), groups.size() * sizeof(int32_t));
  const auto fault =
      std::ranges::find_if(groups, [&](int32_t group) { return group < 0 || group >= num_groups; });
  if (fault == groups.end()) return groups;
  return TensorFault(g_idx, fmt::format("group {} of input {}; accepted: 0 to {}", *fault,
                                        fault - groups.begin(), num_groups - 1));
}

}  // namespace

std::span<const std::string_view> GptqFormat::suffixes() const { return kGptqSuffixes; }

absl::StatusOr<GptqFormat::Layout> GptqFormat::LayoutOf(const ModuleTensors& module) const {
  Layout layout = {.bits = config_.bits};
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor codes, module.Find("qweight", {"I32"}));
  if (codes.shape.size() != 2) return TensorFault(codes, "two dimensions are expected");
  const int64_t words = codes.shape[0];
  layout.out = codes.shape[1];
  // Per-module widths (`dynamic`) show in the sizes.
  if (module.Has("g_idx")) {
    BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor g_idx, module.Find("g_idx", {"I32"}));
    if (g_idx.shape.size() != 1) return TensorFault(g_idx, "one dimension is expected");
    layout.in = g_idx.shape[0];
    const auto fits = std::ranges::find_if(
        kBits, [&](int bits) { return layout.in > 0 && words * 32 == layout.in * bits; });
    if (fits == kBits.end()) {
      return TensorFault(codes, fmt::format("{} words for {} inputs; accepted: those of 2, 3, 4 or "
                                            "8 bits each",
                                            words, layout.in));
    }
    layout.bits = *fits;
  } else {
    layout.in = words * 32 / layout.bits;
  }
  if (layout.in * layout.bits != words * 32 || layout.in == 0 || layout.out == 0) {
    return TensorFault(codes,
                       fmt::format("{} words hold no whole number of {} bits", words, layout.bits));
  }
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scales,
                            module.Find("scales", {"F16", "BF16", "F32"}));
  const int64_t group_size = config_.group_size < 0 ? layout.in : config_.group_size;
  layout.num_groups = CeilDiv(layout.in, group_size);
  if (module.Has("g_idx") && scales.shape.size() == 2) layout.num_groups = scales.shape[0];
  BEAMLINE_RETURN_IF_ERROR(
      module.Find("scales", {scales.dtype}, {layout.num_groups, layout.out}).status());
  BEAMLINE_RETURN_IF_ERROR(
      module.Find("qzeros", {"I32"}, {layout.num_groups, CeilDiv(layout.out * layout.bits, 32)})
          .status());
  layout.dtype = FloatType(scales);
  return layout;
}

absl::StatusOr<MatrixShape> GptqFormat::Describe(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(module));
  return MatrixShape{layout.out, layout.in, layout.dtype};
}

absl::StatusOr<QuantizedMatrix> GptqFormat::Unpack(const ModuleTensors& module) const {
  BEAMLINE_ASSIGN_OR_RETURN(const Layout layout, LayoutOf(module));
  const int64_t in = layout.in, out = layout.out, groups = layout.num_groups;
  QuantizedMatrix matrix = {.out = out, .in = in, .dtype = layout.dtype};
  matrix.group_size = CeilDiv(in, groups);
  if (module.Has("g_idx")) {
    BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor g_idx, module.Find("g_idx", {"I32"}));
    BEAMLINE_ASSIGN_OR_RETURN(matrix.group_of_column, GroupsOf(g_idx, groups));
  } else if (config_.group_size > 0) {
    matrix.group_size = config_.group_size;
  }
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, module.Find("qweight", {"I32"}));
  matrix.codes = CodesOf(Words(stored), layout.bits, out, in);
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor scales,
                            module.Find("scales", {"F16", "BF16", "F32"}));
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> by_group, Scales(scales, false));
  BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor zeros, module.Find("qzeros", {"I32"}));
  std::vector<uint32_t> zero_words = Words(zeros);
  const bool divides = 32 % layout.bits == 0;
  if (config_.is_v1 && divides) {
    // Carries from field to field undo the borrows of the writer's subtraction.
    for (uint32_t& word : zero_words) word += OneInEachField(layout.bits);
  }
  const int64_t words_a_group = CeilDiv(out * layout.bits, 32);
  matrix.scales.resize(static_cast<size_t>(out * groups));
  matrix.zeros.resize(matrix.scales.size());
  for (int64_t group = 0; group < groups; ++group) {
    const BitReader fields(zero_words.data() + group * words_a_group, 1, layout.bits);
    for (int64_t o = 0; o < out; ++o) {
      uint8_t zero = fields[o];
      if (config_.is_v1 && !divides) {
        zero = static_cast<uint8_t>((zero + 1) & ((1 << layout.bits) - 1));
      }
      matrix.zeros[o * groups + group] = zero;
      matrix.scales[o * groups + group] = by_group[group * out + o];
    }
  }
  return matrix;
}

}  // namespace beamline
