#include "kernels/cpu/return_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace beamline::cpu::return_pages_test {
namespace {

TEST(ReturnPagesTest, GivesBackWholePagesAndNoOthers) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t bytes = 8 * page;
  auto* const memory = static_cast<std::byte*>(
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  std::fill_n(memory, bytes, std::byte{7});
  ReturnPages(memory + page + 1, 4 * page);  // of which three pages are whole
  std::vector<unsigned char> resident(8);
  ASSERT_EQ(mincore(memory, bytes, resident.data()), 0);
  for (size_t i = 0; i < resident.size(); ++i) {
    EXPECT_EQ(resident[i] & 1, i < 2 || i >= 5) << i;
  }
  EXPECT_EQ(memory[2 * page - 1], std::byte{7});
  EXPECT_EQ(memory[2 * page], std::byte{0});
  EXPECT_EQ(memory[5 * page - 1], std::byte{0});
  EXPECT_EQ(memory[5 * page], std::byte{7});
  memory[2 * page] = std::byte{9};  // usable
  EXPECT_EQ(memory[2 * page], std::byte{9});
  ReturnPages(memory, page - 1);  // no whole page
  EXPECT_EQ(memory[0], std::byte{7});
  munmap(memory, bytes);
}

}  // namespace
}  // namespace beamline::cpu::return_pages_test
