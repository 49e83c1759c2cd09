#include "server/config/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace beamline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
constexpr char kMainRevision[] = "main";

struct HubName {
  std::string_view model;     // "owner/name"; some old models have only "name"
  std::string_view revision;  // empty: main
};

HubName Split(std::string_view text) {
  const size_t at = text.find('@');
  if (at == text.npos) return {text, ""};
  return {text.substr(0, at), text.substr(at + 1)};
}

bool IsPart(std::string_view part) {
  return !part.empty() && part.find_first_not_of(std::string(kLetters) + "._-") == part.npos &&
         kLetters.find(part[0]) != kLetters.npos;
}

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

// The folder of the model's revision in the cache; empty if it is not there.
fs::path Snapshot(const fs::path& cache, const HubName& name) {
  std::string folder = "models--";
  for (const char letter : name.model) folder += letter == '/' ? "--" : std::string(1, letter);
  const fs::path model = cache / folder;
  std::string revision(name.revision.empty() ? kMainRevision : name.revision);
  // A file holds the commit of a branch or a tag. A commit is a folder.
  std::ifstream reference(model / "refs" / revision);
  if (std::string commit; reference >> commit && IsPart(commit)) revision = commit;
  const fs::path snapshot = model / "snapshots" / revision;
  return IsDirectory(snapshot) ? snapshot : fs::path();
}

}  // namespace

std::string HubCacheFolder(const GetVariable& get_variable) {
  const auto in = [&get_variable](const char* variable, const char* below) -> std::string {
    const char* const value = get_variable(variable);
    if (value == nullptr || *value == '\0') return "";
    return (fs::path(value) / below).string();
  };
  for (const auto& [variable, below] : {std::pair{"HF_HUB_CACHE", ""},
                                        {"HUGGINGFACE_HUB_CACHE", ""},
                                        {"HF_HOME", "hub"},
                                        {"XDG_CACHE_HOME", "huggingface/hub"},
                                        {"HOME", ".cache/huggingface/hub"}}) {
    if (std::string folder = in(variable, below); !folder.empty()) return folder;
  }
  return "";
}

bool IsHubModel(std::string_view text) {
  const auto [model, revision] = Split(text);
  const size_t slash = model.find('/');
  if (slash == model.npos || !IsPart(model.substr(0, slash))) return false;
  const bool has_revision = text.size() > model.size();
  return IsPart(model.substr(slash + 1)) && (!has_revision || IsPart(revision));
}

std::string NameOfFolder(std::string_view text) {
  const bool is_old = !IsDirectory(fs::path(text)) && IsPart(Split(text).model);
  if (IsHubModel(text) || is_old) text = Split(text).model;
  std::error_code error;
  fs::path path(text);
  if (path.filename().empty() || path.filename() == "." || path.filename() == "..") {
    path = fs::weakly_canonical(path, error);
  }
  if (path.filename().empty()) path = path.parent_path();
  return path.filename().string();
}

absl::StatusOr<std::string> FindModelFolder(const std::string& text, const std::string& hub_cache) {
  if (IsDirectory(text)) return text;
  const bool has_owner = IsHubModel(text);
  if (!has_owner && !IsPart(Split(text).model)) return text;
  const HubName name = Split(text);
  const bool is_safe = name.revision.empty() || IsPart(name.revision);
  const fs::path snapshot = hub_cache.empty() || !is_safe ? fs::path() : Snapshot(hub_cache, name);
  if (!snapshot.empty()) return snapshot.string();
  // If the parent folder exists, the text is a wrong path and not a Hub name.
  if (!has_owner || IsDirectory(fs::path(text).parent_path())) return text;
  const std::string revision =
      name.revision.empty() ? "" : fmt::format(" --revision {}", name.revision);
  return absl::NotFoundError(fmt::format(
      "there is no folder '{}', and the Hub's cache{} has no such model; it is downloaded by: hf "
      "download {}{} --local-dir {}",
      text, hub_cache.empty() ? "" : fmt::format(" '{}'", hub_cache), name.model, revision,
      NameOfFolder(text)));
}

}  // namespace beamline
