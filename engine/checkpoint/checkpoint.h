// Downloaded Hugging Face checkpoint folders: config.json, generation_config.json, and weights in
// model.safetensors or in shards listed by model.safetensors.index.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "kernels/tensor.h"

namespace beamline {

// A tensor as models read it.
struct CheckpointTensor {
  std::string name;
  std::string file;  // its path
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  // Aligned to its dtype; in the memory-mapped file, and valid while the Checkpoint lives, unless
  // `owner` holds it. Null: Checkpoint::Read computes it.
  const void* data = nullptr;
  size_t size = 0;  // bytes
  std::shared_ptr<const void> owner;
  // A quantised weight, which is [outputs, inputs] whatever order the model's class stores.
  bool is_dequantized = false;
};

// A tensor as its file has it, of any type of safetensors; valid while the Checkpoint lives.
struct StoredTensor {
  std::string name;
  std::string file;   // its path
  std::string dtype;  // "F16", "I32"
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;  // not necessarily aligned
};

class Checkpoint {
 public:
  // Decides from config.json alone whether the model can be served. Its errors start with
  // "config.json: ".
  using ConfigCheck = std::function<absl::Status(const nlohmann::json& config)>;

  // Maps every weight file and checks all of it (header length, offsets, overlaps, exact end,
  // dtype, shape), after `check` where there is one. Errors name the file, the tensor and the
  // fault; without weights, what the folder holds instead. A quantised checkpoint (formats/) is
  // read by its config.json; UNIMPLEMENTED naming the key of quantization_config.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const CheckpointPath& folder,
                                                          const ConfigCheck& check = nullptr);
  // Opens a folder named by the operator.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& folder,
                                                          const ConfigCheck& check = nullptr);
  virtual ~Checkpoint() = default;

  virtual const CheckpointPath& path() const = 0;
  const std::string& folder() const { return path().string(); }  // for messages
  virtual const nlohmann::json& config() const = 0;              // config.json
  virtual const nlohmann::json& generation_config()
      const = 0;  // an empty object when there is none
  // NOT_FOUND naming the tensor; UNIMPLEMENTED for a dtype that Beamline does not compute with. A
  // quantised weight is found under the name that it has in other checkpoints, without data.
  virtual absl::StatusOr<CheckpointTensor> Find(std::string_view name) const = 0;
  // The same with data: that of a quantised weight is dequantised here, and freed with the result.
  // Errors name values that are out of range. Thread-safe.
  virtual absl::StatusOr<CheckpointTensor> Read(std::string_view name) const { return Find(name); }
  // A tensor that a file has, under its name there.
  virtual absl::StatusOr<StoredTensor> FindStored(std::string_view name) const = 0;
  // The quant_method of a quantised checkpoint; else empty.
  virtual std::string weight_format() const { return ""; }
  // The checkpoint with the tensors that its files have.
  virtual const Checkpoint& stored() const { return *this; }
  // The tensor's values have been read: their pages need not stay in this process's memory, beside
  // what was made of them. Asked for again it is read again. Thread-safe.
  virtual void Release(const CheckpointTensor& tensor) const { static_cast<void>(tensor); }
  virtual bool Contains(std::string_view name) const = 0;
  virtual std::vector<std::string> TensorNames() const = 0;  // ascending
};

}  // namespace beamline
