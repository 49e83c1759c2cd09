#include "engine/transformer/position_embeddings.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>

#include "base/status.h"
#include "engine/transformer/float_conversion.h"

namespace beamline {
namespace {

// LayerNorm of each row.
absl::Status NormalizeRows(const StackSpec& spec, TensorReader& reader, std::vector<float>& rows) {
  const auto width = static_cast<size_t>(spec.hidden_size);
  const NormNames& names = spec.disentangled.table_norm;
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> gain,
                            reader.Floats(names.gain, {spec.hidden_size}));
  BEAMLINE_ASSIGN_OR_RETURN(const std::vector<float> bias,
                            reader.Floats(names.bias, {spec.hidden_size}));
  for (size_t begin = 0; begin < rows.size(); begin += width) {
    const std::span<float> row = std::span(rows).subspan(begin, width);
    double sum = 0, squares = 0;
    for (const float value : row) sum += value;
    const double mean = sum / static_cast<double>(width);
    for (const float value : row) squares += (value - mean) * (value - mean);
    const double scale =
        1.0 / std::sqrt(squares / static_cast<double>(width) + double{spec.norm_epsilon});
    for (size_t i = 0; i < width; ++i) {
      row[i] = static_cast<float>((row[i] - mean) * scale * gain[i] + bias[i]);
    }
  }
  return absl::OkStatus();
}

// The signed bucket of a distance.
int64_t LogBucket(int64_t distance, const DisentangledSpec& spec) {
  const int64_t middle = spec.span / 2;
  const int64_t length = std::abs(distance);
  if (length <= middle) return distance;
  const auto logarithm = std::log(static_cast<float>(length) / static_cast<float>(middle)) /
                         std::log(static_cast<float>(static_cast<double>(spec.max_distance - 1) /
                                                     static_cast<double>(middle)));
  const auto bucket = static_cast<int64_t>(std::ceil(logarithm * static_cast<float>(middle - 1)));
  return distance < 0 ? -(bucket + middle) : bucket + middle;
}

}  // namespace

absl::StatusOr<PositionEmbeddings> LoadPositionEmbeddings(const StackSpec& spec,
                                                          TensorReader& reader, Backend& backend) {
  const DisentangledSpec& disentangled = spec.disentangled;
  BEAMLINE_ASSIGN_OR_RETURN(
      std::vector<float> values,
      reader.Floats(disentangled.table, {disentangled.num_rows(), spec.hidden_size}));
  if (!disentangled.table_norm.empty()) {
    BEAMLINE_RETURN_IF_ERROR(NormalizeRows(spec, reader, values));
  }
  PositionEmbeddings positions;
  positions.rows =
      Tensor(nullptr, reader.activation_dtype(), {disentangled.num_rows(), spec.hidden_size});
  if (values.empty()) return positions;
  std::vector<std::byte> bytes;
  AppendConverted(values.data(), static_cast<int64_t>(values.size()), DType::kFloat32,
                  reader.activation_dtype(), bytes);
  BEAMLINE_ASSIGN_OR_RETURN(positions.memory, backend.Allocate(bytes.size(), MemoryKind::kWeights));
  backend.CopyToDevice(bytes.data(), positions.memory->data(), bytes.size());
  positions.rows.data = positions.memory->data();
  return positions;
}

std::vector<int32_t> DistanceRows(const DisentangledSpec& spec, int32_t max_length) {
  const auto row = [&](int64_t key_minus_query) {
    const int64_t distance = -key_minus_query;
    const int64_t bucket = spec.has_buckets ? LogBucket(distance, spec) : distance;
    return static_cast<int32_t>(
        std::clamp<int64_t>(bucket + spec.span, 0, int64_t{spec.num_rows()} - 1));
  };
  int64_t last = int64_t{max_length} - 1;
  while (last > 0 && row(last) == row(last - 1) && row(-last) == row(1 - last)) --last;
  std::vector<int32_t> rows;
  for (int64_t distance = -last; distance <= last; ++distance) rows.push_back(row(distance));
  return rows;
}

}  // namespace beamline
