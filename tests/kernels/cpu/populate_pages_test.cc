#include "kernels/cpu/populate_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <vector>

#include "kernels/cpu/host_memory.h"
#include "tests/kernels/cpu/own_mappings.h"

namespace beamline::cpu::populate_pages_test {
namespace {

class PopulatePagesTest : public testing::Test {
 protected:
  static constexpr size_t kPages = 8;

  void SetUp() override {
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, kPages * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory_, MAP_FAILED);
    // A system of huge pages gives all of them at once.
    madvise(memory_, kPages * page_, MADV_NOHUGEPAGE);
    if (FreeHostMemory() < int64_t{512} << 20) GTEST_SKIP() << "less than 512 MiB are free";
  }
  void TearDown() override { munmap(memory_, kPages * page_); }

  std::vector<bool> Given() const {
    std::vector<unsigned char> resident(kPages);
    EXPECT_EQ(mincore(memory_, kPages * page_, resident.data()), 0);
    std::vector<bool> given;
    for (const unsigned char page : resident) given.push_back((page & 1) != 0);
    return given;
  }

  size_t page_ = 0;
  std::byte* memory_ = nullptr;
};

TEST_F(PopulatePagesTest, GivesWholePagesAndLeavesTheirContent) {
  memory_[3 * page_] = std::byte{7};
  const size_t bytes = PopulatePages(memory_ + page_ + 1, 4 * page_);  // of which three are whole
  if (bytes == 0) GTEST_SKIP() << "a system before Linux 5.14";
  EXPECT_EQ(bytes, 3 * page_);
  EXPECT_EQ(Given(), (std::vector<bool>{false, false, true, true, true, false, false, false}));
  EXPECT_EQ(memory_[2 * page_], std::byte{0});
  EXPECT_EQ(memory_[3 * page_], std::byte{7});
  memory_[4 * page_] = std::byte{9};  // may be written
  EXPECT_EQ(PopulatePages(memory_, kPages * page_), kPages * page_);
  EXPECT_EQ(Given(), std::vector<bool>(kPages, true));
  EXPECT_EQ(memory_[3 * page_], std::byte{7});
  EXPECT_EQ(memory_[4 * page_], std::byte{9});
}

TEST_F(PopulatePagesTest, NoWholePageIsNothing) {
  EXPECT_EQ(PopulatePages(memory_ + 1, page_ - 1), 0u);
  EXPECT_EQ(PopulatePages(memory_ + 1, 0), 0u);
  EXPECT_EQ(PopulatePages(memory_ + page_ - 1, page_), 0u);
  EXPECT_EQ(Given(), std::vector<bool>(kPages, false));
}

TEST_F(PopulatePagesTest, EndsWhenItIsStopped) {
  const std::atomic<bool> stop = true;
  EXPECT_EQ(PopulatePages(memory_, kPages * page_, &stop), 0u);
  EXPECT_EQ(Given(), std::vector<bool>(kPages, false));
}

TEST(PopulatedPagesTest, AreHugeWhereTheSystemHasSuch) {
  if (!HasHugePages()) GTEST_SKIP() << "a system without huge pages";
  constexpr size_t kBytes = size_t{10} << 20;
  void* const mapped =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  auto* const memory = static_cast<std::byte*>(mapped);
  const size_t bytes = PopulatePages(memory, kBytes);
  const int64_t huge = KibOfMapping(memory, "AnonHugePages");
  munmap(mapped, kBytes);
  if (bytes == 0) GTEST_SKIP() << "a system before Linux 5.14, or less than 256 MiB are free";
  if (huge == 0) GTEST_SKIP() << "no huge page is free";
  EXPECT_GE(huge, 8 << 10);  // without what is no whole page at both ends
}

}  // namespace
}  // namespace beamline::cpu::populate_pages_test
