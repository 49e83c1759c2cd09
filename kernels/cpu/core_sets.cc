#include "kernels/cpu/core_sets.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <tuple>

namespace beamline::cpu {
namespace {

namespace fs = std::filesystem;

std::vector<int> AllowedCores() {
  std::vector<int> cores;
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

int ReadId(const std::string& path) {
  int number = 0;
  std::ifstream(path) >> number;
  return number;
}

// The NUMA node of each core that has one: /sys/devices/system/cpu/cpuN has a link nodeM.
int NodeOf(const std::string& cpu_folder) {
  constexpr std::string_view kNode = "node";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(cpu_folder, error)) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(kNode)) continue;
    int node = 0;
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + kNode.size(), end, node);
    if (parsed.ec == std::errc() && parsed.ptr == end) return node;
  }
  return 0;
}

// Those that share most lie next to each other.
std::vector<int> InOrder(std::vector<int> cores, const std::string& root) {
  std::map<int, std::tuple<int, int, int>> places;  // node, package, physical core
  for (const int core : cores) {
    const std::string folder = root + "/sys/devices/system/cpu/cpu" + std::to_string(core);
    places[core] = {NodeOf(folder), ReadId(folder + "/topology/physical_package_id"),
                    ReadId(folder + "/topology/core_id")};
  }
  std::ranges::stable_sort(cores, {}, [&](int core) { return places[core]; });
  return cores;
}

}  // namespace

std::vector<std::vector<int>> DivideCores(int num_sets, const std::string& root) {
  std::vector<std::vector<int>> sets(static_cast<size_t>(num_sets));
  const std::vector<int> cores = InOrder(AllowedCores(), root);
  if (cores.size() < sets.size()) return sets;
  for (size_t i = 0; i < sets.size(); ++i) {
    const auto begin = static_cast<std::ptrdiff_t>(cores.size() * i / sets.size());
    const auto end = static_cast<std::ptrdiff_t>(cores.size() * (i + 1) / sets.size());
    sets[i].assign(cores.begin() + begin, cores.begin() + end);
  }
  return sets;
}

void RunOn(const std::vector<int>& cores) {
  if (cores.empty()) return;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int core : cores) CPU_SET(core, &mask);
  // Where it is refused they run anywhere, as they would without.
  static_cast<void>(sched_setaffinity(0, sizeof(mask), &mask));
}

}  // namespace beamline::cpu
