#include "server/calls/model_root.h"

#include <filesystem>
#include <system_error>

#include "base/field_error.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPathBytes = 1024;
// Limit of entries in a folder and its subfolders. A checkpoint has some dozens.
constexpr int kMostEntries = 10000;

absl::Status OutsideError(std::string_view folder, std::string_view problem) {
  return FieldError("folder", fmt::format("'{}'{}", Shorten(folder), problem),
                    "a folder below model_root, as 'translators/en-de'");
}

// True if `folder` is names between single slashes, none of them "." or "..".
bool IsBelow(std::string_view folder) {
  if (folder.empty() || folder.size() > kMostPathBytes) return false;
  if (folder.find('\0') != std::string_view::npos) return false;
  for (size_t begin = 0; begin <= folder.size();) {
    const size_t end = std::min(folder.find('/', begin), folder.size());
    const std::string_view name = folder.substr(begin, end - begin);
    if (name.empty() || name == "." || name == "..") return false;
    begin = end + 1;
  }
  return true;
}

}  // namespace

absl::StatusOr<ModelRoot> ModelRoot::Open(const std::string& path) {
  std::error_code error;
  const fs::path root = fs::canonical(path, error);
  if (!error && fs::is_directory(root, error)) return ModelRoot(root.string());
  return FieldError("model_root",
                    fmt::format("'{}'{}", Shorten(path), error ? ": " + error.message() : ""),
                    "a folder that is there");
}

bool ModelRoot::Holds(const std::string& path) const {
  return path.starts_with(path_ == "/" ? path_ : path_ + "/");
}

absl::StatusOr<std::string> ModelRoot::Resolve(std::string_view folder) const {
  if (!IsBelow(folder)) return OutsideError(folder, "");
  std::error_code error;
  const std::string path = fs::canonical(fs::path(path_) / folder, error).string();
  if (error == std::errc::no_such_file_or_directory) {
    return absl::NotFoundError(
        fmt::format("folder is '{}', and model_root has no such folder", Shorten(folder)));
  }
  if (error) return OutsideError(folder, ", which cannot be opened: " + error.message());
  if (!Holds(path)) return OutsideError(folder, ", which a link leads out of model_root");
  if (!fs::is_directory(path, error)) return OutsideError(folder, ", which is no folder");
  BEAMLINE_RETURN_IF_ERROR(CheckLinks(folder, path));
  return path;
}

absl::Status ModelRoot::CheckLinks(std::string_view folder, const std::string& path) const {
  std::error_code error;
  int count = 0;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (++count > kMostEntries) {
      return OutsideError(folder, fmt::format(", which has more than {} files", kMostEntries));
    }
    std::error_code unreadable;
    if (!entry->is_symlink(unreadable)) continue;
    // A broken or circular link fails when it is opened.
    const std::string target = fs::canonical(entry->path(), unreadable).string();
    if (unreadable || Holds(target)) continue;
    return OutsideError(folder, fmt::format(", in which the link '{}' leads out of model_root",
                                            Shorten(entry->path().filename().string())));
  }
  if (error) return OutsideError(folder, ", which cannot be read: " + error.message());
  return absl::OkStatus();
}

}  // namespace beamline
