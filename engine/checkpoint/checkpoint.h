// Hugging Face checkpoint folders as they are downloaded: config.json, generation_config.json,
// weights in model.safetensors or sharded by model.safetensors.index.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint_path.h"
#include "kernels/tensor.h"

namespace beamline {

// A tensor in the memory-mapped file; valid while the Checkpoint lives.
struct CheckpointTensor {
  std::string name;
  std::string file;  // its path
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  const void* data = nullptr;  // aligned to its dtype
  size_t size = 0;             // bytes
};

class Checkpoint {
 public:
  // Says of config.json alone whether the model is worth looking for; its errors begin with
  // "config.json: ".
  using ConfigCheck = std::function<absl::Status(const nlohmann::json& config)>;

  // Maps every weight file and checks all of it (header length, offsets, overlaps, exact end,
  // dtype, shape), after `check` where there is one. Errors name the file, the tensor and the
  // fault; without weights, what the folder holds instead.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const CheckpointPath& folder,
                                                          const ConfigCheck& check = nullptr);
  // Of a folder that the operator names.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& folder,
                                                          const ConfigCheck& check = nullptr);
  virtual ~Checkpoint() = default;

  virtual const CheckpointPath& path() const = 0;
  const std::string& folder() const { return path().string(); }  // for messages
  virtual const nlohmann::json& config() const = 0;              // config.json
  virtual const nlohmann::json& generation_config()
      const = 0;  // an empty object when there is none
  // NOT_FOUND naming the tensor; UNIMPLEMENTED for a dtype that Beamline does not compute with.
  virtual absl::StatusOr<CheckpointTensor> Find(std::string_view name) const = 0;
  // The tensor's values have been read: their pages need not stay in this process's memory, beside
  // what was made of them. Asked for again it is read again. Thread-safe.
  virtual void Release(const CheckpointTensor& tensor) const { static_cast<void>(tensor); }
  virtual bool Contains(std::string_view name) const = 0;
  virtual std::vector<std::string> TensorNames() const = 0;  // ascending
};

}  // namespace beamline
