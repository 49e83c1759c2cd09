#include "kernels/cpu/cpu_count.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace beamline::cpu::cpu_count_test {
namespace {

int AffinityCpus() {
  cpu_set_t mask;
  return sched_getaffinity(0, sizeof(mask), &mask) == 0 ? CPU_COUNT(&mask) : -1;
}

// A folder with the files of /proc and /sys that tell of control groups.
class CpuCountTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  const std::string root_ =
      (std::filesystem::temp_directory_path() / ("cpu_count_" + std::to_string(getpid()))).string();
};

TEST_F(CpuCountTest, AllOfTheMaskWithoutAQuota) {
  ASSERT_GE(AffinityCpus(), 1);
  EXPECT_EQ(AvailableCpus(root_), AffinityCpus());
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(AvailableCpus(root_), AffinityCpus());
}

TEST_F(CpuCountTest, AQuotaOfAnyAncestorHolds) {
  Write("/proc/self/cgroup", "3:cpuset:/\n0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/a/cpu.max", "100000 100000\n");
  EXPECT_EQ(AvailableCpus(root_), 1);
  Write("/sys/fs/cgroup/a/cpu.max", "50000 100000\n");  // half a core is one
  EXPECT_EQ(AvailableCpus(root_), 1);
  Write("/sys/fs/cgroup/a/cpu.max", "100001 100000\n");  // and a little more than one is two
  EXPECT_EQ(AvailableCpus(root_), std::min(2, AffinityCpus()));
  Write("/sys/fs/cgroup/a/cpu.max", "100000000 100000\n");
  EXPECT_EQ(AvailableCpus(root_), AffinityCpus());
}

TEST_F(CpuCountTest, VersionOneHasAQuotaToo) {
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(AvailableCpus(root_), 1);
}

// The affinity mask of the thread that asks.
TEST_F(CpuCountTest, AMaskOfOneCoreIsOne) {
  cpu_set_t all, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++cpu) {
    if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
  }
  ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  EXPECT_EQ(AvailableCpus(), 1);
  ASSERT_EQ(sched_setaffinity(0, sizeof(all), &all), 0);
}

}  // namespace
}  // namespace beamline::cpu::cpu_count_test
