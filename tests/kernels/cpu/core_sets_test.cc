// Cores divided among replicas: none twice, none left over, nodes kept together.
#include "kernels/cpu/core_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "tests/scratch_path.h"

namespace beamline::cpu::core_sets_test {
namespace {

std::vector<int> Allowed() {
  cpu_set_t mask;
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(mask), &mask) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

// Another machine's /sys: a core's node, package and core.
class CoreSetsTest : public testing::Test {
 protected:
  ~CoreSetsTest() override { std::filesystem::remove_all(root_); }
  void Describe(int core, int node, int package, int physical) const {
    const std::string folder = root_ + "/sys/devices/system/cpu/cpu" + std::to_string(core);
    std::filesystem::create_directories(folder + "/topology");
    std::filesystem::create_directories(folder + "/node" + std::to_string(node));
    std::ofstream(folder + "/topology/physical_package_id") << package << "\n";
    std::ofstream(folder + "/topology/core_id") << physical << "\n";
  }
  const std::string root_ = ScratchPath("core_sets");
};

TEST_F(CoreSetsTest, EachCoreIsInOneSet) {
  const std::vector<int> allowed = Allowed();
  for (int num_sets = 1; num_sets <= static_cast<int>(allowed.size()); ++num_sets) {
    const auto sets = DivideCores(num_sets);
    ASSERT_EQ(sets.size(), static_cast<size_t>(num_sets));
    std::set<int> seen;
    size_t smallest = allowed.size(), largest = 0;
    for (const auto& cores : sets) {
      smallest = std::min(smallest, cores.size());
      largest = std::max(largest, cores.size());
      for (const int core : cores) EXPECT_TRUE(seen.insert(core).second) << core;
    }
    EXPECT_EQ(seen, std::set<int>(allowed.begin(), allowed.end()));
    EXPECT_LE(largest, smallest + 1);
  }
}

TEST_F(CoreSetsTest, FewerCoresThanSetsArePinnedToNone) {
  for (const auto& cores : DivideCores(static_cast<int>(Allowed().size()) + 1)) {
    EXPECT_TRUE(cores.empty());
  }
}

// The numbering alternates between the nodes, as it does on machines of two sockets.
TEST_F(CoreSetsTest, NodesStayTogether) {
  const std::vector<int> allowed = Allowed();
  if (allowed.size() < 2 || allowed.size() % 2 != 0)
    GTEST_SKIP() << "needs an even number of cores";
  for (size_t i = 0; i < allowed.size(); ++i) {
    Describe(allowed[i], static_cast<int>(1 - i % 2), 0, static_cast<int>(i));
  }
  const auto sets = DivideCores(2, root_);
  std::vector<int> even, odd;
  for (size_t i = 0; i < allowed.size(); ++i) (i % 2 == 0 ? even : odd).push_back(allowed[i]);
  EXPECT_EQ(sets[0], odd);  // of node 0
  EXPECT_EQ(sets[1], even);
}

TEST_F(CoreSetsTest, AThreadRunsWhereItIsPut) {
  const std::vector<int> last = {Allowed().back()};
  std::thread([&] {
    RunOn(last);
    EXPECT_EQ(Allowed(), last);
    RunOn({});
    EXPECT_EQ(Allowed(), last);
    std::thread([&] { EXPECT_EQ(Allowed(), last); }).join();
  }).join();
}

TEST_F(CoreSetsTest, ABackendOfItsOwnCoresComputes) {
  const auto backend = MakeCpuBackend({.num_threads = 2, .cores = {Allowed().front()}});
  EXPECT_EQ(backend->Name(), "cpu");
  std::vector<float> values(64 * 64, 0.5f);
  const HostMatrix matrix = {values.data(), DType::kFloat32, 64, 64};
  const auto weight = backend->PackWeight({&matrix, 1}, DType::kFloat32);
  ASSERT_TRUE(weight.ok()) << weight.status();
  const auto input = backend->Allocate(64 * 64 * sizeof(float));
  const auto output = backend->Allocate(64 * 64 * sizeof(float));
  ASSERT_TRUE(input.ok() && output.ok());
  backend->CopyToDevice(values.data(), (*input)->data(), values.size() * sizeof(float));
  MatMulParams params;
  params.x = {(*input)->data(), DType::kFloat32, {64, 64}};
  params.weight = weight->get();
  params.y = {(*output)->data(), DType::kFloat32, {64, 64}};
  backend->MatMul(params);
  std::vector<float> product(64 * 64);
  ASSERT_TRUE(
      backend->CopyToHost((*output)->data(), product.data(), product.size() * sizeof(float)).ok());
  EXPECT_THAT(product, testing::Each(16.0f));
}

}  // namespace
}  // namespace beamline::cpu::core_sets_test
