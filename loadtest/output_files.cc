#include "loadtest/output_files.h"

#include <filesystem>
#include <system_error>

#include "base/file.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

// Whether both paths name one regular file, so that the second output would overwrite the first.
bool AreOneFile(const std::string& one, const std::string& other) {
  if (one.empty() || other.empty()) return false;
  std::error_code error;
  const auto path = std::filesystem::weakly_canonical(one, error);
  if (error || path != std::filesystem::weakly_canonical(other, error)) return false;
  return !std::filesystem::exists(path, error) || std::filesystem::is_regular_file(path, error);
}

}  // namespace

absl::Status CheckOutputs(const std::vector<std::pair<const char*, std::string>>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [flag, path] = outputs[i];
    if (path.empty()) continue;
    if (absl::Status status = CheckWritable(flag, path); !status.ok()) return status;
    for (size_t other = 0; other < i; ++other) {
      if (!AreOneFile(path, outputs[other].second)) continue;
      return absl::InvalidArgumentError(fmt::format("{} is '{}', as {}; accepted: another file",
                                                    flag, path, outputs[other].first));
    }
  }
  return absl::OkStatus();
}

}  // namespace beamline::loadtest
