#include "engine/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "base/status.h"
#include "engine/checkpoint/formats/dequantized_checkpoint.h"
#include "engine/checkpoint/json_file.h"
#include "engine/checkpoint/mapped_file.h"
#include "engine/checkpoint/other_formats.h"
#include "engine/checkpoint/safetensors.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

constexpr char kAdapterFile[] = "adapter_config.json";

absl::Status CheckFolder(const CheckpointPath& folder) {
  const OpenedPath opened = folder.OpenAny(O_PATH);
  const std::string& name = folder.string();
  switch (opened.error) {
    case 0:
      break;
    case ENOENT:
      return absl::NotFoundError(fmt::format("{}: no such folder", name));
    case ENOTDIR:
      return absl::InvalidArgumentError(fmt::format("{}: a file stands where a folder must", name));
    case EXDEV:
      return absl::InvalidArgumentError(fmt::format("{}: {}", name, LeadsOut(folder)));
    default:
      return absl::ErrnoToStatus(opened.error, fmt::format("{}: cannot be opened", name));
  }
  struct stat info = {};
  if (fstat(opened.fd.get(), &info) != 0) {
    return absl::ErrnoToStatus(errno, fmt::format("{}: cannot be opened", name));
  }
  if (S_ISDIR(info.st_mode)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}: not a folder; the folder of a checkpoint is expected", name));
}

class FolderCheckpoint final : public Checkpoint {
 public:
  explicit FolderCheckpoint(CheckpointPath folder) : folder_(std::move(folder)) {}

  absl::Status Load(const ConfigCheck& check) {
    BEAMLINE_RETURN_IF_ERROR(LoadConfigs());
    if (check) {
      const absl::Status status = check(config_);
      if (!status.ok()) {
        return absl::Status(status.code(), Path(std::string(status.message())));
      }
    }
    BEAMLINE_ASSIGN_OR_RETURN(const bool is_single, HasFile(folder_ / kSingleFile));
    if (is_single) return AddWeightFile(kSingleFile);
    BEAMLINE_ASSIGN_OR_RETURN(const bool is_sharded, HasFile(folder_ / kIndexFile));
    if (is_sharded) return AddShards();
    return absl::NotFoundError(fmt::format("{}: neither {} nor {}{}", folder(), kSingleFile,
                                           kIndexFile, OtherFormatsIn(folder_)));
  }

  const CheckpointPath& path() const override { return folder_; }
  const nlohmann::json& config() const override { return config_; }
  const nlohmann::json& generation_config() const override { return generation_config_; }

  absl::StatusOr<CheckpointTensor> Find(std::string_view name) const override {
    BEAMLINE_ASSIGN_OR_RETURN(const StoredTensor stored, FindStored(name));
    const SafetensorsEntry& entry = tensors_.find(name)->second.entry;
    if (!entry.dtype.has_value()) {
      return absl::UnimplementedError(fmt::format("{}: tensor \"{}\": dtype {} is not supported",
                                                  stored.file, name, entry.dtype_name));
    }
    return CheckpointTensor{.name = entry.name,
                            .file = stored.file,
                            .dtype = *entry.dtype,
                            .shape = entry.shape,
                            .data = entry.bytes.data(),
                            .size = entry.bytes.size()};
  }

  absl::StatusOr<StoredTensor> FindStored(std::string_view name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return absl::NotFoundError(
          fmt::format("{}: no tensor \"{}\"", Path(shards_ ? kIndexFile : kSingleFile), name));
    }
    const SafetensorsEntry& entry = found->second.entry;
    return StoredTensor{entry.name, Path(found->second.file), entry.dtype_name, entry.shape,
                        entry.bytes};
  }

  void Release(const CheckpointTensor& tensor) const override {
    const std::span<const std::byte> bytes(static_cast<const std::byte*>(tensor.data), tensor.size);
    for (const MappedFile& file : files_) file.Release(bytes);
  }

  bool Contains(std::string_view name) const override { return tensors_.contains(name); }

  std::vector<std::string> TensorNames() const override {
    std::vector<std::string> names;
    names.reserve(tensors_.size());
    for (const auto& [name, tensor] : tensors_) names.push_back(name);
    return names;
  }

 private:
  struct FileEntry {
    std::string file;  // without the folder
    SafetensorsEntry entry;
  };

  std::string Path(std::string_view file) const { return fmt::format("{}/{}", folder(), file); }

  absl::Status LoadConfigs() {
    // An adapter's folder may also contain a whole model, which transformers would not load.
    BEAMLINE_ASSIGN_OR_RETURN(const bool is_adapter, HasFile(folder_ / kAdapterFile));
    if (is_adapter) {
      return absl::UnimplementedError(
          fmt::format("{}: a LoRA or PEFT adapter, which is not applied; merge it into its base "
                      "model (merge_and_unload) and save that",
                      Path(kAdapterFile)));
    }
    auto config = ReadJsonObject(folder_ / "config.json");
    if (absl::IsNotFound(config.status())) {
      return absl::NotFoundError(
          fmt::format("{}: no such file{}", Path("config.json"), OtherFormatsIn(folder_)));
    }
    BEAMLINE_ASSIGN_OR_RETURN(config_, std::move(config));
    auto generation_config = ReadJsonObject(folder_ / "generation_config.json");
    if (absl::IsNotFound(generation_config.status())) return absl::OkStatus();
    BEAMLINE_ASSIGN_OR_RETURN(generation_config_, std::move(generation_config));
    return absl::OkStatus();
  }

  absl::Status AddWeightFile(const std::string& file) {
    const std::string path = Path(file);
    BEAMLINE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(folder_ / file));
    BEAMLINE_ASSIGN_OR_RETURN(std::vector<SafetensorsEntry> entries,
                              ParseSafetensors(mapped.bytes(), path));
    files_.push_back(std::move(mapped));
    for (SafetensorsEntry& entry : entries) {
      Align(entry);
      const auto [other, added] = tensors_.try_emplace(entry.name, FileEntry{file, entry});
      if (!added) {
        return absl::InvalidArgumentError(
            fmt::format("{}: tensor \"{}\" is in {} too", path, entry.name, other->second.file));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddShards() {
    shards_ = true;
    const std::string path = Path(kIndexFile);
    BEAMLINE_ASSIGN_OR_RETURN(const nlohmann::json index, ReadJsonObject(folder_ / kIndexFile));
    const auto weight_map = index.find("weight_map");
    if (weight_map == index.end() || !weight_map->is_object()) {
      return absl::InvalidArgumentError(fmt::format("{}: no weight_map object", path));
    }
    std::set<std::string> shards;
    for (const auto& [tensor, shard] : weight_map->items()) {
      if (!shard.is_string() || !IsPlainFileName(shard.get_ref<const std::string&>())) {
        return absl::InvalidArgumentError(
            fmt::format("{}: tensor \"{}\": {} is not the name of a file in the folder", path,
                        tensor, shard.dump(-1, ' ', true)));
      }
      shards.insert(shard.get<std::string>());
    }
    for (const std::string& shard : shards) BEAMLINE_RETURN_IF_ERROR(AddWeightFile(shard));
    return CheckIndex(*weight_map);
  }

  // Checks that the index and the shards list the same tensors in the same files.
  absl::Status CheckIndex(const nlohmann::json& weight_map) const {
    for (const auto& [name, shard] : weight_map.items()) {
      const auto found = tensors_.find(name);
      if (found == tensors_.end() || found->second.file != shard.get_ref<const std::string&>()) {
        return absl::InvalidArgumentError(
            fmt::format("{}: tensor \"{}\" is not in {}, where it says it is", Path(kIndexFile),
                        name, shard.get_ref<const std::string&>()));
      }
    }
    for (const auto& [name, tensor] : tensors_) {
      if (!weight_map.contains(name)) {
        return absl::InvalidArgumentError(
            fmt::format("{}: tensor \"{}\" is missing in {}", Path(tensor.file), name, kIndexFile));
      }
    }
    return absl::OkStatus();
  }

  static bool IsPlainFileName(std::string_view name) {
    return !name.empty() && name != "." && name != ".." &&
           name.find_first_of(std::string_view("/\\\0", 3)) == std::string_view::npos;
  }

  // The format does not align tensors, but users of CheckpointTensor need alignment.
  void Align(SafetensorsEntry& entry) {
    if (!entry.dtype.has_value() || entry.bytes.empty()) return;
    if (reinterpret_cast<uintptr_t>(entry.bytes.data()) % SizeOf(*entry.dtype) == 0) return;
    aligned_copies_.emplace_back(entry.bytes.begin(), entry.bytes.end());
    entry.bytes = aligned_copies_.back();
  }

  const CheckpointPath folder_;
  nlohmann::json config_;
  nlohmann::json generation_config_ = nlohmann::json::object();
  bool shards_ = false;
  std::vector<MappedFile> files_;
  std::vector<std::vector<std::byte>> aligned_copies_;
  std::map<std::string, FileEntry, std::less<>> tensors_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const CheckpointPath& folder,
                                                             const ConfigCheck& check) {
  BEAMLINE_RETURN_IF_ERROR(CheckFolder(folder));
  auto checkpoint = std::make_unique<FolderCheckpoint>(folder);
  BEAMLINE_RETURN_IF_ERROR(checkpoint->Load(check));
  return Dequantized(std::move(checkpoint));
}

absl::StatusOr<std::unique_ptr<Checkpoint>> Checkpoint::Open(const std::string& folder,
                                                             const ConfigCheck& check) {
  return Open(CheckpointPath(folder), check);
}

}  // namespace beamline
