// A committed checkpoint some of whose tensors have other values.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/float_conversion.h"
#include "gtest/gtest.h"

namespace beamline {

class ChangedCheckpoint : public Checkpoint {
 public:
  // `name`: a folder of tests/golden/random.
  explicit ChangedCheckpoint(const std::string& name) {
    auto opened =
        Checkpoint::Open(std::string(BEAMLINE_SOURCE_DIR) + "/tests/golden/random/" + name);
    EXPECT_TRUE(opened.ok()) << opened.status();
    stored_ = *std::move(opened);
  }

  const CheckpointPath& path() const override { return stored_->path(); }
  const nlohmann::json& config() const override { return stored_->config(); }
  const nlohmann::json& generation_config() const override { return stored_->generation_config(); }
  // In float32 where it is changed. Not thread-safe.
  absl::StatusOr<CheckpointTensor> Find(std::string_view name) const override {
    auto tensor = stored_->Find(name);
    if (!tensor.ok() || !IsChanged(name, *tensor)) return tensor;
    std::vector<std::byte> bytes;
    AppendConverted(tensor->data, tensor->size / SizeOf(tensor->dtype), tensor->dtype,
                    DType::kFloat32, bytes);
    const auto* const floats = reinterpret_cast<const float*>(bytes.data());
    std::vector<float>& values = changed_[std::string(name)];
    values.assign(floats, floats + bytes.size() / sizeof(float));
    Change(values, tensor->shape.back());
    tensor->dtype = DType::kFloat32;
    tensor->data = values.data();
    tensor->size = values.size() * sizeof(float);
    return tensor;
  }
  absl::StatusOr<StoredTensor> FindStored(std::string_view name) const override {
    return stored_->FindStored(name);
  }
  bool Contains(std::string_view name) const override { return stored_->Contains(name); }
  std::vector<std::string> TensorNames() const override { return stored_->TensorNames(); }

 private:
  virtual bool IsChanged(std::string_view name, const CheckpointTensor& tensor) const = 0;
  // `width`: values of a row.
  virtual void Change(std::vector<float>& values, int64_t width) const = 0;

  std::unique_ptr<Checkpoint> stored_;
  mutable std::map<std::string, std::vector<float>> changed_;
};

}  // namespace beamline
