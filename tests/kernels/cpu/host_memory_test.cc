#include "kernels/cpu/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "tests/scratch_path.h"

namespace beamline::cpu::host_memory_test {
namespace {

namespace fs = std::filesystem;

// A /proc and a /sys of the test's own.
class HostMemory : public testing::Test {
 protected:
  HostMemory() : root_(ScratchPath("host_memory")) {
    Write("/proc/meminfo", "MemTotal: 100 kB\nMemFree: 3 kB\nMemAvailable:      64 kB\n");
  }
  ~HostMemory() override { fs::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  const std::string root_;
};

TEST_F(HostMemory, IsWhatTheSystemHas) { EXPECT_EQ(FreeHostMemory(root_), 64 * 1024); }

TEST_F(HostMemory, AnyGroupAboveLimitsIt) {
  Write("/proc/self/cgroup", "0::/a/b\n");
  Write("/sys/fs/cgroup/a/b/memory.max", "max\n");
  Write("/sys/fs/cgroup/a/b/memory.current", "1000\n");
  EXPECT_EQ(FreeHostMemory(root_), 64 * 1024);
  Write("/sys/fs/cgroup/a/memory.max", "30000\n");
  Write("/sys/fs/cgroup/a/memory.current", "25000\n");
  EXPECT_EQ(FreeHostMemory(root_), 5000);
  Write("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 700\nactive_file 9000\n");
  EXPECT_EQ(FreeHostMemory(root_), 5700);
  Write("/sys/fs/cgroup/a/b/memory.max", "900\n");  // below what is used
  EXPECT_EQ(FreeHostMemory(root_), 0);
}

TEST_F(HostMemory, AContainersLimitLiesAtTheTop) {
  Write("/proc/self/cgroup", "0::/pod/container\n");
  Write("/sys/fs/cgroup/memory.max", "4096\n");
  Write("/sys/fs/cgroup/memory.current", "96\n");
  EXPECT_EQ(FreeHostMemory(root_), 4000);
}

TEST_F(HostMemory, TheFirstVersionOfGroupsHasOtherNames) {
  Write("/proc/self/cgroup", "7:cpu,cpuacct:/x\n5:memory:/a\n");
  Write("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  Write("/sys/fs/cgroup/memory/a/memory.usage_in_bytes", "4000\n");
  Write("/sys/fs/cgroup/memory/a/memory.stat", "total_inactive_file 50\n");
  EXPECT_EQ(FreeHostMemory(root_), 1050);
}

TEST(HostMemoryOfThisMachine, IsKnown) {
  EXPECT_GT(FreeHostMemory(), 0);
  EXPECT_LT(FreeHostMemory(), std::numeric_limits<int64_t>::max());
}

}  // namespace
}  // namespace beamline::cpu::host_memory_test
