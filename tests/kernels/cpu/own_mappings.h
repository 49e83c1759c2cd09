// What the system tells of this process's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>

namespace beamline::cpu {

// Of the mapping that holds `data`, as /proc/self/smaps has it: KiB behind `name`, -1 where there
// is no such mapping.
inline int64_t KibOfMapping(const std::byte* data, const std::string& name) {
  std::ifstream file("/proc/self/smaps");
  const auto address = reinterpret_cast<uintptr_t>(data);
  bool is_inside = false;
  for (std::string line; std::getline(file, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::istringstream words(line);
    if (words >> std::hex >> begin >> dash >> end && dash == '-') {
      is_inside = begin <= address && address < end;
    } else if (is_inside && line.starts_with(name + ":")) {
      return std::stoll(line.substr(name.size() + 1));
    }
  }
  return -1;
}

// Whether the system gives huge pages to who asks for them.
inline bool HasHugePages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(file, line) && line.find("[never]") == std::string::npos;
}

}  // namespace beamline::cpu
