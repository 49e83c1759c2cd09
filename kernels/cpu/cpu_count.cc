#include "kernels/cpu/cpu_count.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <thread>

namespace beamline::cpu {
namespace {

constexpr int kNoCpuLimit = std::numeric_limits<int>::max();

int CpusOf(double quota_us, double period_us) {
  if (quota_us <= 0 || period_us <= 0) return kNoCpuLimit;
  return std::max(1, static_cast<int>(std::ceil(quota_us / period_us)));
}

int AffinityCpus() {
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return CPU_COUNT(&mask);
  return static_cast<int>(std::thread::hardware_concurrency());
}

// cpu.max contains "max 100000" or "150000 100000". Limits of all ancestors apply.
int CgroupV2Cpus(const std::string& root) {
  std::string path;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.starts_with("0::")) path = line.substr(3);
  }
  int cpus = kNoCpuLimit;
  for (;;) {
    std::ifstream file(root + "/sys/fs/cgroup" + path + "/cpu.max");
    std::string quota;
    double period_us = 0;
    if (file >> quota >> period_us && quota != "max") {
      cpus = std::min(cpus, CpusOf(std::strtod(quota.c_str(), nullptr), period_us));
    }
    if (path.empty()) return cpus;
    path.resize(path.find_last_of('/') == std::string::npos ? 0 : path.find_last_of('/'));
  }
}

int CgroupV1Cpus(const std::string& root) {
  std::ifstream quota_file(root + "/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
  std::ifstream period_file(root + "/sys/fs/cgroup/cpu/cpu.cfs_period_us");
  double quota_us = 0;
  double period_us = 0;
  if (!(quota_file >> quota_us) || !(period_file >> period_us)) return kNoCpuLimit;
  return CpusOf(quota_us, period_us);
}

}  // namespace

int AvailableCpus(const std::string& root) {
  return std::max(1, std::min({AffinityCpus(), CgroupV2Cpus(root), CgroupV1Cpus(root)}));
}

}  // namespace beamline::cpu
