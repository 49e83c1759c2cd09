#include "kernels/cpu/host_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

namespace beamline::cpu {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// The number of a file that holds nothing else; nullopt of "max" too.
std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// The number behind `name` in a file of a name and a number a line.
std::optional<int64_t> ReadNamed(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t number = 0;
    if (words >> first >> number && first == name) return number;
  }
  return std::nullopt;
}

int64_t SystemBytes(const std::string& root) {
  constexpr int64_t kKib = 1024;
  const auto kib = ReadNamed(root + "/proc/meminfo", "MemAvailable:");
  return kib.has_value() ? *kib * kKib : kNoLimit;
}

// `cached`: the entry of memory.stat for files that nobody has used for a while.
int64_t GroupBytes(const std::string& folder, const char* limit, const char* usage,
                   const char* cached) {
  const auto most = ReadNumber(folder + limit);
  const auto used = ReadNumber(folder + usage);
  if (!most.has_value() || !used.has_value()) return kNoLimit;
  return *most - *used + ReadNamed(folder + "/memory.stat", cached).value_or(0);
}

// The path of the process's control group: behind "0::" in version 2, behind "N:memory:" in 1.
std::optional<std::string> GroupOf(const std::string& root, std::string_view controller) {
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    if (line.substr(first + 1, second - first - 1) == controller) return line.substr(second + 1);
  }
  return std::nullopt;
}

// A limit of any ancestor holds. In a container the group's own path may not be there, and its
// files lie at the top.
int64_t GroupsBytes(const std::string& top, std::string path, const char* limit, const char* usage,
                    const char* cached) {
  int64_t bytes = kNoLimit;
  for (;;) {
    bytes = std::min(bytes, GroupBytes(top + path, limit, usage, cached));
    if (path.empty()) return bytes;
    const size_t slash = path.find_last_of('/');
    path.resize(slash == std::string::npos ? 0 : slash);
  }
}

}  // namespace

int64_t FreeHostMemory(const std::string& root) {
  const std::string groups = root + "/sys/fs/cgroup";
  const int64_t bytes = std::min(
      {SystemBytes(root),
       GroupsBytes(groups, GroupOf(root, "").value_or(""), "/memory.max", "/memory.current",
                   "inactive_file"),
       GroupsBytes(groups + "/memory", GroupOf(root, "memory").value_or(""),
                   "/memory.limit_in_bytes", "/memory.usage_in_bytes", "total_inactive_file")});
  return std::max<int64_t>(bytes, 0);
}

}  // namespace beamline::cpu
