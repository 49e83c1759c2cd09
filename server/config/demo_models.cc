#include "server/config/demo_models.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

constexpr std::array<const char*, 6> kDemoModels = {"translate-en-de", "embed-en",  "write-en",
                                                    "chat-en",         "rerank-en", "tag-en"};

std::vector<std::filesystem::path> Candidates() {
  const char* chosen = std::getenv("BEAMLINE_MODELS");
  if (chosen != nullptr && *chosen != '\0') return {chosen};
  std::vector<std::filesystem::path> candidates;
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    candidates.push_back(program.parent_path().parent_path() / "share/beamline/models");
  }
  candidates.emplace_back(BEAMLINE_DEMO_MODELS_DIR);
  return candidates;
}

}  // namespace

absl::StatusOr<std::vector<ModelOptions>> FindDemoModels() {
  std::vector<std::string> looked;
  for (const std::filesystem::path& folder : Candidates()) {
    std::error_code error;
    if (std::filesystem::exists(folder / kDemoModels[0] / "config.json", error)) {
      std::vector<ModelOptions> models;
      for (const char* name : kDemoModels) {
        // A folder of an earlier version has only the first three.
        if (!std::filesystem::exists(folder / name / "config.json", error)) continue;
        ModelOptions model;
        model.name = name;
        model.folder = (folder / name).string();
        models.push_back(std::move(model));
      }
      return models;
    }
    looked.push_back(folder.string());
  }
  return absl::NotFoundError(
      fmt::format("the demo models are not in {}; name a model with --model name=folder, or their "
                  "folder with BEAMLINE_MODELS",
                  fmt::join(looked, " or ")));
}

}  // namespace beamline
