// Long because it reads every way in which tensors are stored.
#include "engine/transformer/tensor_reader.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/math.h"
#include "base/status.h"
#include "engine/transformer/activations.h"
#include "engine/transformer/float_conversion.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

// Each * in `pattern` matches any characters.
bool Matches(std::string_view name, std::string_view pattern) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  const std::string_view rest = pattern.substr(star + 1);
  for (size_t begin = star; begin <= name.size(); ++begin) {
    if (Matches(name.substr(begin), rest)) return true;
  }
  return false;
}

int64_t NumElements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

// Drops leading dimensions of 1, down to `rank` dimensions.
std::vector<int64_t> DropLeadingOnes(std::vector<int64_t> shape, size_t rank) {
  while (shape.size() > rank && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

// A block of a stored matrix: refers to the matrix if its rows are contiguous there, else a copy in
// `copies`.
HostMatrix Block(const HostMatrix& stored, int64_t first_row, int64_t num_rows, int64_t first_col,
                 int64_t num_cols, std::deque<std::vector<std::byte>>& copies) {
  const size_t element = SizeOf(stored.dtype);
  const auto at = [&](int64_t row) {
    return static_cast<const std::byte*>(stored.data) + (row * stored.cols + first_col) * element;
  };
  HostMatrix block = stored;
  block.rows = num_rows;
  block.cols = num_cols;
  block.data = at(first_row);
  if (num_cols == stored.cols) return block;
  std::vector<std::byte>& copy = copies.emplace_back();
  copy.reserve(static_cast<size_t>(num_rows * num_cols) * element);
  for (int64_t row = first_row; row < first_row + num_rows; ++row) {
    copy.insert(copy.end(), at(row), at(row) + num_cols * element);
  }
  block.data = copy.data();
  return block;
}

// The matrix times `factor`, in float32. REQUIRES: its rows are contiguous.
HostMatrix Scaled(HostMatrix matrix, float factor, std::deque<std::vector<std::byte>>& copies) {
  std::vector<std::byte>& copy = copies.emplace_back();
  AppendScaled(matrix.data, matrix.rows * matrix.cols, matrix.dtype, factor, DType::kFloat32, copy);
  matrix.data = copy.data();
  matrix.dtype = DType::kFloat32;
  return matrix;
}

}  // namespace

TensorReader::TensorReader(const Checkpoint& checkpoint, const Shard& shard,
                           const ModelTypes& types, Backend& backend, TransformerWeights& weights)
    : checkpoint_(checkpoint),
      shard_(shard),
      types_(types),
      activation_dtype_(backend.ActivationDType(types.precision.compute)),
      backend_(backend),
      weights_(weights) {}

absl::StatusOr<CheckpointTensor> TensorReader::Find(const std::string& name,
                                                    std::vector<int64_t> shape) {
  auto found = keeps_ ? checkpoint_.Read(name) : checkpoint_.Find(name);
  if (absl::IsNotFound(found.status())) {
    return absl::NotFoundError(
        fmt::format("{}, which config.json calls for", std::string(found.status().message())));
  }
  BEAMLINE_ASSIGN_OR_RETURN(CheckpointTensor tensor, std::move(found));
  if (!IsStoredFloat(tensor.dtype)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor \"{}\": float32, float16 or bfloat16 is expected, found {}",
                    tensor.file, name, Name(tensor.dtype)));
  }
  if (DropLeadingOnes(tensor.shape, shape.size()) != shape) {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor \"{}\": shape [{}] is expected by config.json, found [{}]",
                    tensor.file, name, fmt::join(shape, ", "), fmt::join(tensor.shape, ", ")));
  }
  // Only the first rank checks the values.
  if (keeps_ && shard_.rank == 0 && checked_.insert(name).second &&
      !AllFinite(tensor.data, static_cast<size_t>(NumElements(shape)), tensor.dtype)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor \"{}\" holds NaN or infinity", tensor.file, name));
  }
  if (keeps_ && types_.precision.weights == DType::kFloat16 && shard_.rank == 0 &&
      !AllFitFloat16(tensor.data, static_cast<size_t>(NumElements(shape)), tensor.dtype)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor \"{}\" has values beyond 65504, where float16 ends; accepted: "
                    "weights bfloat16, float32",
                    tensor.file, name));
  }
  if (read_.insert(name).second) weights_.num_parameters += NumElements(shape);
  return tensor;
}

absl::StatusOr<void*> TensorReader::UploadBytes(std::span<const std::byte> bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer,
                            backend_.Allocate(bytes.size(), MemoryKind::kWeights));
  backend_.CopyToDevice(bytes.data(), buffer->data(), bytes.size());
  weights_.bytes += static_cast<int64_t>(bytes.size());
  weights_.buffers.push_back(std::move(buffer));
  return weights_.buffers.back()->data();
}

absl::StatusOr<Tensor> TensorReader::Table(const std::string& name, int64_t rows, int64_t columns,
                                           float scale) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor stored, Find(name, {rows, columns}));
  if (!keeps_) return Tensor();
  const auto known = tables_.find(name);
  if (known != tables_.end()) return known->second;
  BEAMLINE_ASSIGN_OR_RETURN(const Tensor table,
                            UploadColumns(stored.data, stored.dtype, rows, columns, scale));
  checkpoint_.Release(stored);
  return tables_.emplace(name, table).first->second;
}

absl::StatusOr<Tensor> TensorReader::UploadColumns(const void* values, DType dtype, int64_t rows,
                                                   int64_t columns, float scale) {
  // Limits the memory for a table on the host.
  constexpr int64_t kBytesAtATime = 4 << 20;
  const int64_t begin = shard_.Begin(columns), width = shard_.Width(columns);
  const int64_t row_bytes = width * static_cast<int64_t>(SizeOf(activation_dtype_));
  BEAMLINE_ASSIGN_OR_RETURN(
      std::unique_ptr<Buffer> buffer,
      backend_.Allocate(static_cast<size_t>(rows * row_bytes), MemoryKind::kWeights));
  const int64_t most_rows = std::max<int64_t>(1, kBytesAtATime / row_bytes);
  std::vector<std::byte> bytes;
  for (int64_t first = 0; first < rows; first += most_rows) {
    const int64_t count = std::min(most_rows, rows - first);
    bytes.clear();
    for (int64_t row = first; row < first + count; row = shard_.whole() ? first + count : row + 1) {
      const size_t offset = static_cast<size_t>(row * columns + begin) * SizeOf(dtype);
      AppendScaled(static_cast<const std::byte*>(values) + offset,
                   shard_.whole() ? count * columns : width, dtype, scale, activation_dtype_,
                   bytes);
    }
    backend_.CopyToDevice(bytes.data(), static_cast<std::byte*>(buffer->data()) + first * row_bytes,
                          bytes.size());
  }
  weights_.bytes += rows * row_bytes;
  weights_.buffers.push_back(std::move(buffer));
  return Tensor(weights_.buffers.back()->data(), activation_dtype_, {rows, width});
}

std::vector<TensorReader::OutputRange> TensorReader::OutputRanges(
    std::span<const int64_t> part_sizes, size_t num_tensors, LinearSplit split,
    const KvParts& kv) const {
  BEAMLINE_CHECK(num_tensors == 1 || num_tensors == part_sizes.size());
  std::vector<OutputRange> ranges;
  int64_t begin = 0;  // in the tensor
  for (size_t part = 0; part < part_sizes.size(); ++part) {
    const int64_t size = part_sizes[part];
    if (num_tensors > 1) begin = 0;
    OutputRange range = {num_tensors > 1 ? part : 0, begin, size};
    if (split == LinearSplit::kOut && kv.num_heads > 0 && part >= kv.first_part) {
      const int64_t head_rows = size / kv.num_heads;
      range.begin += shard_.KvBegin(kv.num_heads) * head_rows;
      range.size = shard_.KvWidth(kv.num_heads) * head_rows;
    } else if (split == LinearSplit::kOut) {
      range.begin += shard_.Begin(size);
      range.size = shard_.Width(size);
    }
    // Merges adjacent ranges: if a rank has all parts, it reads the whole tensor.
    if (!ranges.empty() && ranges.back().tensor == range.tensor &&
        ranges.back().begin + ranges.back().size == range.begin) {
      ranges.back().size += range.size;
    } else {
      ranges.push_back(range);
    }
    begin += size;
  }
  return ranges;
}

std::vector<TensorReader::OutputRange> TensorReader::GroupedRanges(
    std::span<const int64_t> part_sizes, const KvParts& kv) const {
  const int64_t rows = std::accumulate(part_sizes.begin(), part_sizes.end(), int64_t{0});
  std::vector<OutputRange> ranges;
  // Ranks that share a group divide its queries.
  const int64_t sharing = kv.num_heads < shard_.size ? shard_.size / kv.num_heads : 1;
  const int64_t first = shard_.KvBegin(kv.num_heads);
  int64_t offset = 0;  // offset of the part within a group
  for (size_t part = 0; part < part_sizes.size(); ++part) {
    const int64_t size = part_sizes[part] / kv.num_heads;
    const int64_t own = part < kv.first_part ? size / sharing : size;
    const int64_t skipped = part < kv.first_part ? shard_.rank % sharing * own : 0;
    for (int64_t group = first; group < first + shard_.KvWidth(kv.num_heads); ++group) {
      ranges.push_back({0, group * (rows / kv.num_heads) + offset + skipped, own});
    }
    offset += size;
  }
  return ranges;
}

absl::StatusOr<Tensor> TensorReader::Vector(std::span<const std::string> names,
                                            std::span<const int64_t> sizes,
                                            std::span<const OutputRange> ranges,
                                            const LinearScale& scale) {
  BEAMLINE_CHECK(names.size() == sizes.size());
  std::vector<CheckpointTensor> stored(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) continue;
    BEAMLINE_ASSIGN_OR_RETURN(stored[i], Find(names[i], {sizes[i]}));
  }
  if (ranges.empty() || !keeps_) return Tensor();
  std::vector<std::byte> bytes;
  int64_t size = 0;
  for (const OutputRange& range : ranges) {
    const CheckpointTensor& from = stored[range.tensor];
    if (names[range.tensor].empty()) {
      bytes.resize(bytes.size() + static_cast<size_t>(range.size) * SizeOf(activation_dtype_));
      size += range.size;
      continue;
    }
    const size_t offset = static_cast<size_t>(range.begin) * SizeOf(from.dtype);
    AppendScaled(static_cast<const std::byte*>(from.data) + offset, range.size, from.dtype,
                 range.tensor >= scale.first_part ? scale.factor : 1.0f, activation_dtype_, bytes);
    size += range.size;
  }
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(bytes));
  return Tensor(data, activation_dtype_, {size});
}

absl::StatusOr<LinearWeights> TensorReader::Linear(const LinearNames& names,
                                                   std::vector<int64_t> part_sizes,
                                                   int64_t in_features, LinearSplit split,
                                                   const KvParts& kv, const LinearScale& scale) {
  BEAMLINE_CHECK(scale.first_part == 0 || names.weights.size() > 1);
  const std::vector<OutputRange> ranges =
      names.grouped ? GroupedRanges(part_sizes, kv)
                    : OutputRanges(part_sizes, names.weights.size(), split, kv);
  // Separate biases are split by parts even if the weights are grouped.
  const bool has_own_biases = names.grouped && names.biases.size() > 1;
  const std::vector<int64_t> bias_sizes = part_sizes;
  const std::vector<OutputRange> bias_ranges =
      has_own_biases ? OutputRanges(part_sizes, names.biases.size(), split, kv) : ranges;
  if (names.weights.size() == 1) {
    part_sizes = {std::accumulate(part_sizes.begin(), part_sizes.end(), int64_t{0})};
  }
  std::vector<CheckpointTensor> tensors;
  std::vector<HostMatrix> stored;
  for (size_t i = 0; i < part_sizes.size(); ++i) {
    const auto described = checkpoint_.Find(names.weights[i]);
    const bool transposed = names.transposed && !(described.ok() && described->is_dequantized);
    const int64_t rows = transposed ? in_features : part_sizes[i];
    const int64_t cols = transposed ? part_sizes[i] : in_features;
    std::vector<int64_t> shape = {rows, cols};
    if (names.kernel_size > 0) shape = {rows, cols / names.kernel_size, names.kernel_size};
    BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor found,
                              Find(names.weights[i], std::move(shape)));
    stored.push_back({found.data, found.dtype, rows, cols, transposed});
    tensors.push_back(found);
  }
  const int64_t first_in = split == LinearSplit::kIn ? shard_.Begin(in_features) : 0;
  const int64_t num_in = split == LinearSplit::kIn ? shard_.Width(in_features) : in_features;
  std::deque<std::vector<std::byte>> copies;
  std::vector<HostMatrix> parts;
  for (const OutputRange& range : keeps_ ? ranges : std::vector<OutputRange>()) {
    const HostMatrix& from = stored[range.tensor];
    parts.push_back(from.transposed
                        ? Block(from, first_in, num_in, range.begin, range.size, copies)
                        : Block(from, range.begin, range.size, first_in, num_in, copies));
    if (scale.factor != 1.0f && range.tensor >= scale.first_part) {
      parts.back() = Scaled(parts.back(), scale.factor, copies);
    }
  }
  LinearWeights linear;
  if (keeps_) {
    const Precision precision = types_.OfMatrix(parts);
    BEAMLINE_ASSIGN_OR_RETURN(linear.weight, backend_.PackWeight(parts, precision));
    weights_.bytes += linear.weight->out_features() * linear.weight->in_features() *
                      static_cast<int64_t>(SizeOf(precision.weights));
    for (const CheckpointTensor& tensor : tensors) checkpoint_.Release(tensor);
  }
  if (!names.biases.empty()) {
    // Only the first term of a sum includes the bias.
    const bool has_bias = split != LinearSplit::kIn || shard_.rank == 0;
    BEAMLINE_ASSIGN_OR_RETURN(linear.bias,
                              Vector(names.biases, has_own_biases ? bias_sizes : part_sizes,
                                     has_bias ? std::span<const OutputRange>(bias_ranges)
                                              : std::span<const OutputRange>(),
                                     scale));
  }
  return linear;
}

absl::StatusOr<Tensor> TensorReader::Product(const Tensor& rows, const LinearNames& names,
                                             int64_t out_features) {
  const int64_t bytes_before = weights_.bytes;
  BEAMLINE_ASSIGN_OR_RETURN(const LinearWeights linear,
                            Linear(names, {out_features}, rows.dim(-1), LinearSplit::kOut));
  if (!keeps_) return Tensor();
  Tensor y(nullptr, activation_dtype_, {rows.dim(0), linear.weight->out_features()});
  const size_t size = static_cast<size_t>(y.num_elements()) * SizeOf(y.dtype);
  BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<Buffer> buffer,
                            backend_.Allocate(size, MemoryKind::kWeights));
  y.data = buffer->data();
  MatMulParams product;
  product.x = rows;
  product.weight = linear.weight.get();
  product.bias = linear.bias;
  product.y = y;
  backend_.MatMul(product);
  BEAMLINE_RETURN_IF_ERROR(backend_.Synchronize());  // before the matrix is freed
  weights_.bytes = bytes_before + static_cast<int64_t>(size);
  weights_.buffers.push_back(std::move(buffer));
  return y;
}

absl::StatusOr<const int32_t*> TensorReader::UploadIndices(std::span<const int32_t> values) {
  if (!keeps_) return nullptr;
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(std::as_bytes(values)));
  return static_cast<const int32_t*>(data);
}

absl::StatusOr<Tensor> TensorReader::LogitsBias(const std::string& name, int64_t size) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor stored, Find(name, {size}));
  if (!keeps_) return Tensor();
  const int64_t width = shard_.Width(size);
  const int64_t padded = RoundUp(width, kLogitsPadding);
  const size_t offset = static_cast<size_t>(shard_.Begin(size)) * SizeOf(stored.dtype);
  std::vector<std::byte> bytes;
  AppendConverted(static_cast<const std::byte*>(stored.data) + offset, width, stored.dtype,
                  DType::kFloat32, bytes);
  std::vector<float> values(padded, 0.0f);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0.0f; })) {
    return Tensor();
  }
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(std::as_bytes(std::span(values))));
  return Tensor(data, DType::kFloat32, {1, padded}).Columns(0, width);
}

absl::StatusOr<std::vector<float>> TensorReader::Floats(const std::string& name,
                                                        std::vector<int64_t> shape) {
  const int64_t size = NumElements(shape);
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor stored, Find(name, std::move(shape)));
  std::vector<float> values;
  if (!keeps_) return values;
  std::vector<std::byte> bytes;
  AppendConverted(stored.data, size, stored.dtype, DType::kFloat32, bytes);
  values.resize(static_cast<size_t>(size));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

absl::StatusOr<NormWeights> TensorReader::Norm(const NormNames& names, int64_t size, float scale) {
  NormWeights norm;
  if (names.empty()) return norm;
  const OutputRange all = {0, 0, size};
  if (scale == 1.0f && names.offset == 0.0f && !names.plain) {
    BEAMLINE_ASSIGN_OR_RETURN(norm.gain, Vector({&names.gain, 1}, {&size, 1}, {&all, 1}));
  } else {
    std::vector<float> gains(static_cast<size_t>(size), 1.0f);
    if (!names.plain) {
      BEAMLINE_ASSIGN_OR_RETURN(gains, Floats(names.gain, {size}));
    }
    for (float& gain : gains) gain = (gain + names.offset) * scale;
    if (keeps_) {
      std::vector<std::byte> bytes;
      AppendConverted(gains.data(), size, DType::kFloat32, activation_dtype_, bytes);
      BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(bytes));
      norm.gain = Tensor(data, activation_dtype_, {size});
    }
  }
  if (!names.bias.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(norm.bias, Vector({&names.bias, 1}, {&size, 1}, {&all, 1}));
  }
  return norm;
}

absl::StatusOr<Tensor> TensorReader::Upload(std::span<const float> values, int64_t rows,
                                            int64_t columns, float scale) {
  BEAMLINE_CHECK(static_cast<int64_t>(values.size()) == rows * columns);
  if (!keeps_) return Tensor();
  return UploadColumns(values.data(), DType::kFloat32, rows, columns, scale);
}

absl::StatusOr<Tensor> TensorReader::UploadOfHeads(std::span<const float> values) {
  if (!keeps_) return Tensor();
  const auto total = static_cast<int64_t>(values.size());
  const std::span<const float> own = values.subspan(shard_.Begin(total), shard_.Width(total));
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(std::as_bytes(own)));
  return Tensor(data, DType::kFloat32, {static_cast<int64_t>(own.size())});
}

absl::StatusOr<Tensor> TensorReader::UploadFloats(int64_t rows, int64_t columns, FillRows fill) {
  constexpr int64_t kRowsAtATime = 1024;
  if (!keeps_) return Tensor();
  const size_t row_bytes = static_cast<size_t>(columns) * sizeof(float);
  BEAMLINE_ASSIGN_OR_RETURN(
      std::unique_ptr<Buffer> buffer,
      backend_.Allocate(static_cast<size_t>(rows) * row_bytes, MemoryKind::kWeights));
  std::vector<float> some(static_cast<size_t>(std::min(rows, kRowsAtATime) * columns));
  for (int64_t first = 0; first < rows; first += kRowsAtATime) {
    const int64_t count = std::min(kRowsAtATime, rows - first);
    const std::span<float> filled = std::span(some).first(static_cast<size_t>(count * columns));
    fill(first, filled);
    backend_.CopyToDevice(filled.data(),
                          static_cast<std::byte*>(buffer->data()) + first * row_bytes,
                          filled.size_bytes());
  }
  weights_.bytes += rows * static_cast<int64_t>(row_bytes);
  weights_.buffers.push_back(std::move(buffer));
  return Tensor(weights_.buffers.back()->data(), DType::kFloat32, {rows, columns});
}

absl::Status TensorReader::CheckAllRead(std::span<const std::string> ignored) const {
  constexpr size_t kMostNamed = 5;
  std::vector<std::string> unread;
  for (std::string& name : checkpoint_.TensorNames()) {
    const bool expected = read_.contains(name) || std::any_of(ignored.begin(), ignored.end(),
                                                              [&](const std::string& pattern) {
                                                                return Matches(name, pattern);
                                                              });
    if (!expected) unread.push_back(std::move(name));
  }
  if (unread.empty()) return absl::OkStatus();
  const size_t count = unread.size();
  if (count > kMostNamed) unread.resize(kMostNamed);
  const auto first = checkpoint_.Find(unread.front());
  return absl::InvalidArgumentError(
      fmt::format("{}: {} tensors that the model in config.json does not have: \"{}\"{}",
                  first.ok() ? first->file : checkpoint_.folder(), count,
                  fmt::join(unread, "\", \""), count > kMostNamed ? ", ..." : ""));
}

}  // namespace beamline
