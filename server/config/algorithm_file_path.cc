#include "server/config/algorithm_file_path.h"

#include <cstdlib>
#include <filesystem>

namespace beamline {
namespace {

constexpr char kFileName[] = "beamline/cublaslt-algorithms.txt";

}  // namespace

bool IsAlgorithmPath(std::string_view setting) {
  return !setting.empty() && setting != "auto" && setting != "off";
}

std::string AlgorithmFilePath(std::string_view setting) {
  if (setting == "off") return "";
  if (setting != "auto") return std::string(setting);
  if (const char* path = std::getenv(kAlgorithmFileVariable)) return path;
  // The XDG base directory specification says to ignore a relative XDG_CACHE_HOME.
  const std::filesystem::path xdg = [] {
    const char* folder = std::getenv("XDG_CACHE_HOME");
    return std::filesystem::path(folder == nullptr ? "" : folder);
  }();
  if (xdg.is_absolute()) return (xdg / kFileName).string();
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == '\0') return "";
  return (std::filesystem::path(home) / ".cache" / kFileName).string();
}

}  // namespace beamline
