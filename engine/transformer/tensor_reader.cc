#include "engine/transformer/tensor_reader.h"

#include <algorithm>
#include <cstring>
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

// `pattern` with every * standing for any characters.
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

// Without leading dimensions of 1, down to `rank` dimensions.
std::vector<int64_t> DropLeadingOnes(std::vector<int64_t> shape, size_t rank) {
  while (shape.size() > rank && shape.front() == 1) shape.erase(shape.begin());
  return shape;
}

}  // namespace

TensorReader::TensorReader(const Checkpoint& checkpoint, DType dtype, Backend& backend,
                           TransformerWeights& weights)
    : checkpoint_(checkpoint),
      dtype_(dtype),
      activation_dtype_(backend.ActivationDType(dtype)),
      backend_(backend),
      weights_(weights) {}

absl::StatusOr<CheckpointTensor> TensorReader::Find(const std::string& name,
                                                    std::vector<int64_t> shape) {
  auto found = checkpoint_.Find(name);
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
  if (!read_.insert(name).second) return tensor;
  if (!AllFinite(tensor.data, static_cast<size_t>(NumElements(shape)), tensor.dtype)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: tensor \"{}\" holds NaN or infinity", tensor.file, name));
  }
  weights_.num_parameters += NumElements(shape);
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

absl::StatusOr<Tensor> TensorReader::Table(const std::string& name, int64_t rows, int64_t columns) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor stored, Find(name, {rows, columns}));
  const auto known = tables_.find(name);
  if (known != tables_.end()) return known->second;
  std::vector<std::byte> bytes;
  AppendConverted(stored.data, rows * columns, stored.dtype, activation_dtype_, bytes);
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(bytes));
  return tables_.emplace(name, Tensor(data, activation_dtype_, {rows, columns})).first->second;
}

absl::StatusOr<Tensor> TensorReader::Vector(std::span<const std::string> names,
                                            std::span<const int64_t> sizes) {
  BEAMLINE_CHECK(names.size() == sizes.size());
  std::vector<std::byte> bytes;
  for (size_t i = 0; i < names.size(); ++i) {
    BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor stored, Find(names[i], {sizes[i]}));
    AppendConverted(stored.data, sizes[i], stored.dtype, activation_dtype_, bytes);
  }
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(bytes));
  const int64_t size = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  return Tensor(data, activation_dtype_, {size});
}

absl::StatusOr<LinearWeights> TensorReader::Linear(const LinearNames& names,
                                                   std::vector<int64_t> part_sizes,
                                                   int64_t in_features) {
  const int64_t out_features = std::accumulate(part_sizes.begin(), part_sizes.end(), int64_t{0});
  if (names.weights.size() == 1) part_sizes = {out_features};
  BEAMLINE_CHECK(names.weights.size() == part_sizes.size());
  std::vector<HostMatrix> parts;
  for (size_t i = 0; i < part_sizes.size(); ++i) {
    const int64_t rows = names.transposed ? in_features : part_sizes[i];
    const int64_t cols = names.transposed ? part_sizes[i] : in_features;
    BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor stored, Find(names.weights[i], {rows, cols}));
    parts.push_back({stored.data, stored.dtype, rows, cols, names.transposed});
  }
  LinearWeights linear;
  BEAMLINE_ASSIGN_OR_RETURN(linear.weight, backend_.PackWeight(parts, dtype_));
  weights_.bytes += out_features * in_features * static_cast<int64_t>(SizeOf(dtype_));
  if (!names.biases.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(linear.bias, Vector(names.biases, part_sizes));
  }
  return linear;
}

absl::StatusOr<Tensor> TensorReader::LogitsBias(const std::string& name, int64_t size) {
  BEAMLINE_ASSIGN_OR_RETURN(const CheckpointTensor stored, Find(name, {size}));
  const int64_t padded = RoundUp(size, kLogitsPadding);
  std::vector<std::byte> bytes;
  AppendConverted(stored.data, size, stored.dtype, DType::kFloat32, bytes);
  std::vector<float> values(padded, 0.0f);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  if (std::all_of(values.begin(), values.end(), [](float value) { return value == 0.0f; })) {
    return Tensor();
  }
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(std::as_bytes(std::span(values))));
  return Tensor(data, DType::kFloat32, {1, padded}).Columns(0, size);
}

absl::StatusOr<NormWeights> TensorReader::Norm(const NormNames& names, int64_t size) {
  NormWeights norm;
  if (names.gain.empty()) return norm;
  BEAMLINE_ASSIGN_OR_RETURN(norm.gain, Vector({&names.gain, 1}, {&size, 1}));
  if (!names.bias.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(norm.bias, Vector({&names.bias, 1}, {&size, 1}));
  }
  return norm;
}

absl::StatusOr<Tensor> TensorReader::Upload(std::span<const float> values, int64_t rows,
                                            int64_t columns) {
  BEAMLINE_CHECK(static_cast<int64_t>(values.size()) == rows * columns);
  std::vector<std::byte> bytes;
  AppendConverted(values.data(), values.size(), DType::kFloat32, activation_dtype_, bytes);
  BEAMLINE_ASSIGN_OR_RETURN(void* const data, UploadBytes(bytes));
  return Tensor(data, activation_dtype_, {rows, columns});
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
