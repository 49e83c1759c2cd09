#include "base/status_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <sstream>
#include <thread>

namespace beamline::status_line_test {
namespace {

using std::chrono::milliseconds;
using testing::EndsWith;
using testing::HasSubstr;

constexpr char kCleared[] = "\r\x1b[K";

TEST(StatusLine, IsDrawnAndLeavesNothing) {
  std::ostringstream out;
  std::atomic<int> drawn = 0;
  {
    StatusLine line(out, true, milliseconds(1), [&drawn](double, size_t width) {
      ++drawn;
      return std::string(width + 100, '#');  // cut, for a line that breaks cannot be taken back
    });
    while (drawn == 0) std::this_thread::sleep_for(milliseconds(1));
    line.Around(true, [&out] { out << "answer\n"; });
  }
  EXPECT_THAT(out.str(), HasSubstr(std::string("#") + kCleared + "answer\n" + kCleared + "#"));
  EXPECT_THAT(out.str(), EndsWith(kCleared));
}

TEST(StatusLine, NothingIsShownWhereThereIsNoTerminal) {
  std::ostringstream out;
  {
    StatusLine line(out, false, milliseconds(1), [](double, size_t) { return std::string("x"); });
    line.Around(true, [&out] { out << "answer\n"; });
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(out.str(), "answer\n");
}

}  // namespace
}  // namespace beamline::status_line_test
