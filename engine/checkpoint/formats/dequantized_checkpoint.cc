#include "engine/checkpoint/formats/dequantized_checkpoint.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/checkpoint/formats/module_tensors.h"
#include "engine/checkpoint/formats/quantization_config.h"
#include "engine/checkpoint/formats/quantized_matrix.h"
#include "engine/checkpoint/formats/weight_format.h"
#include "fmt/format.h"

namespace beamline {
namespace {

// Scales of activations and of caches in fewer bits.
constexpr std::array<std::string_view, 9> kUnusedSuffixes = {
    ".input_scale", ".input_zero_point", ".input_scale_ub",    ".output_scale", ".k_scale",
    ".v_scale",     ".q_scale",          ".prob_output_scale", ".kv_scale"};

// "MODULE.SUFFIX" without ".SUFFIX"; empty when the name ends otherwise.
std::string ModuleOf(std::string_view name, std::string_view suffix) {
  if (name.size() < suffix.size() + 2 || !name.ends_with(suffix)) return "";
  name.remove_suffix(suffix.size());
  if (name.back() != '.') return "";
  name.remove_suffix(1);
  return std::string(name);
}

class DequantizedCheckpoint final : public Checkpoint {
 public:
  DequantizedCheckpoint(std::unique_ptr<Checkpoint> stored, WeightFormats formats)
      : stored_(std::move(stored)), formats_(std::move(formats)) {}

  absl::Status DescribeAll() {
    const std::vector<std::string> names = stored_->TensorNames();
    std::set<std::string> parts;
    for (const auto& format : formats_.formats) {
      for (const std::string& name : names) {
        if (parts.contains(name)) continue;
        const std::string module = ModuleOf(name, format->suffixes().front());
        if (!module.empty()) BEAMLINE_RETURN_IF_ERROR(AddModule(*format, module, parts));
      }
    }
    for (const std::string& name : names) {
      const bool is_unused = std::ranges::any_of(
          kUnusedSuffixes, [&](std::string_view suffix) { return name.ends_with(suffix); });
      if (!is_unused && !parts.contains(name)) names_.insert(name);
    }
    for (const auto& [name, weight] : weights_) names_.insert(name);
    return absl::OkStatus();
  }

  const CheckpointPath& path() const override { return stored_->path(); }
  const nlohmann::json& config() const override { return stored_->config(); }
  const nlohmann::json& generation_config() const override { return stored_->generation_config(); }

  absl::StatusOr<CheckpointTensor> Find(std::string_view name) const override {
    const auto found = weights_.find(name);
    return found == weights_.end() ? stored_->Find(name) : found->second.tensor;
  }

  absl::StatusOr<CheckpointTensor> Read(std::string_view name) const override {
    const auto found = weights_.find(name);
    if (found == weights_.end()) return stored_->Read(name);
    const Weight& weight = found->second;
    BEAMLINE_ASSIGN_OR_RETURN(const QuantizedMatrix matrix,
                              weight.format->Unpack(ModuleTensors(*stored_, weight.module)));
    CheckpointTensor tensor = weight.tensor;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(Dequantize(matrix));
    tensor.data = bytes->data();
    tensor.owner = std::shared_ptr<const void>(bytes, bytes->data());
    return tensor;
  }

  absl::StatusOr<StoredTensor> FindStored(std::string_view name) const override {
    return stored_->FindStored(name);
  }

  std::string weight_format() const override { return formats_.method; }
  const Checkpoint& stored() const override { return *stored_; }

  void Release(const CheckpointTensor& tensor) const override {
    const auto found = weights_.find(tensor.name);
    if (found == weights_.end()) return stored_->Release(tensor);
    for (const std::string& part : found->second.parts) {
      const auto stored = stored_->FindStored(part);
      if (!stored.ok()) continue;
      stored_->Release({.name = part, .data = stored->bytes.data(), .size = stored->bytes.size()});
    }
  }

  bool Contains(std::string_view name) const override { return names_.contains(std::string(name)); }
  std::vector<std::string> TensorNames() const override {
    return std::vector<std::string>(names_.begin(), names_.end());
  }

 private:
  struct Weight {
    const WeightFormat* format = nullptr;
    std::string module;
    std::vector<std::string> parts;  // the tensors that it is made of
    CheckpointTensor tensor;         // without data
  };

  absl::Status AddModule(const WeightFormat& format, const std::string& module,
                         std::set<std::string>& parts) {
    const ModuleTensors tensors(*stored_, module);
    BEAMLINE_ASSIGN_OR_RETURN(const MatrixShape shape, format.Describe(tensors));
    Weight weight = {.format = &format, .module = module};
    for (const std::string_view suffix : format.suffixes()) {
      if (!tensors.Has(suffix)) continue;
      weight.parts.push_back(fmt::format("{}.{}", module, suffix));
    }
    BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor first, stored_->FindStored(weight.parts.front()));
    weight.tensor.name = module + ".weight";
    weight.tensor.file = first.file;
    weight.tensor.dtype = shape.dtype;
    weight.tensor.shape = {shape.out, shape.in};
    weight.tensor.size = static_cast<size_t>(shape.out * shape.in) * SizeOf(shape.dtype);
    weight.tensor.is_dequantized = true;
    parts.insert(weight.parts.begin(), weight.parts.end());
    weights_.emplace(weight.tensor.name, std::move(weight));
    return absl::OkStatus();
  }

  const std::unique_ptr<Checkpoint> stored_;
  const WeightFormats formats_;
  std::map<std::string, Weight, std::less<>> weights_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Dequantized(std::unique_ptr<Checkpoint> stored) {
  auto formats = WeightFormatsOf(*stored);
  if (!formats.ok()) {
    return absl::Status(
        formats.status().code(),
        fmt::format("{}/{}", stored->folder(), std::string(formats.status().message())));
  }
  if (formats->method.empty()) return stored;
  auto checkpoint = std::make_unique<DequantizedCheckpoint>(std::move(stored), *std::move(formats));
  BEAMLINE_RETURN_IF_ERROR(checkpoint->DescribeAll());
  return checkpoint;
}

}  // namespace beamline
