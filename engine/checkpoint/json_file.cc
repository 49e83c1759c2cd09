#include "engine/checkpoint/json_file.h"

#include "base/json.h"
#include "base/status.h"

namespace beamline {

absl::StatusOr<nlohmann::json> ReadJson(const CheckpointPath& path, int64_t max_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, max_bytes));
  return ParseJson(text, path.string());
}

absl::StatusOr<nlohmann::json> ReadJsonObject(const CheckpointPath& path, int64_t max_bytes) {
  BEAMLINE_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path, max_bytes));
  return ParseJsonObject(text, path.string());
}

}  // namespace beamline
