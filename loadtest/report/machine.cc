#include "loadtest/report/machine.h"

#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

#include "fmt/chrono.h"
#include "fmt/format.h"

namespace beamline::loadtest {
namespace {

// The value of the first line "key ... : value" or "KEY=value" of a file; "" if there is none.
std::string FindValue(const char* path, const std::string& key, char separator) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    const size_t at = line.find(separator);
    if (!line.starts_with(key) || at == std::string::npos) continue;
    const size_t begin = line.find_first_not_of(" \t\"", at + 1);
    const size_t end = line.find_last_not_of(" \t\"");
    return begin == std::string::npos ? "" : line.substr(begin, end - begin + 1);
  }
  return "";
}

}  // namespace

std::map<std::string, std::string> DescribeMachine() {
  std::map<std::string, std::string> machine;
  machine["cpu"] = FindValue("/proc/cpuinfo", "model name", ':');
  machine["cores"] = std::to_string(std::thread::hardware_concurrency());
  machine["system"] = FindValue("/etc/os-release", "PRETTY_NAME", '=');
  struct sysinfo memory {};
  if (sysinfo(&memory) == 0) {
    const double bytes = static_cast<double>(memory.totalram) * memory.mem_unit;
    machine["memory"] = fmt::format("{:.1f} GiB", bytes / (1 << 30));
  }
  utsname kernel{};
  if (uname(&kernel) == 0) machine["kernel"] = fmt::format("{} {}", kernel.release, kernel.machine);
  return machine;
}

std::string UtcDate() { return fmt::format("{:%FT%TZ}", fmt::gmtime(std::time(nullptr))); }

}  // namespace beamline::loadtest
