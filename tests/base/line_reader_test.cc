#include "base/line_reader.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "tests/scratch_path.h"

namespace beamline::line_reader_test {
namespace {

using std::chrono::milliseconds;
using Outcome = LineReader::Outcome;

class LineReaderTest : public testing::Test {
 protected:
  LineReaderTest() { EXPECT_EQ(pipe(ends_.data()), 0); }
  ~LineReaderTest() override {
    close(ends_[0]);
    CloseWriter();
  }
  void Write(const std::string& text) {
    ASSERT_EQ(write(ends_[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseWriter() {
    if (ends_[1] >= 0) close(ends_[1]);
    ends_[1] = -1;
  }

  std::array<int, 2> ends_ = {-1, -1};
  std::string line_;
};

TEST_F(LineReaderTest, GivesLinesAsTheyCome) {
  LineReader reader(ends_[0]);
  EXPECT_EQ(reader.Next(line_, milliseconds(1)), Outcome::kNotYet);
  Write("one\n\ntw");
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kLine);
  EXPECT_EQ(line_, "one");
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kLine);
  EXPECT_EQ(line_, "");
  EXPECT_EQ(reader.Next(line_, milliseconds(1)), Outcome::kNotYet);
  Write("o\nlast");
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kLine);
  EXPECT_EQ(line_, "two");
  EXPECT_EQ(reader.Next(line_, milliseconds(1)), Outcome::kNotYet);
  CloseWriter();
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kLine);
  EXPECT_EQ(line_, "last");
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kEnd);
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kEnd);
}

TEST_F(LineReaderTest, ALineMayEndAsOnWindows) {
  LineReader reader(ends_[0]);
  Write("one\r\n\r\na\rb\r\r\nlast\r");
  CloseWriter();
  for (const char* expected : {"one", "", "a\rb\r", "last"}) {
    EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kLine);
    EXPECT_EQ(line_, expected);
  }
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kEnd);
}

TEST_F(LineReaderTest, KeepsWhatASplitOnLinesWouldGive) {
  for (const std::string text : {"", "\n", "a", "a\n", "\n\n", "a\n\nb", "a\nb\n\n"}) {
    std::array<int, 2> ends;
    ASSERT_EQ(pipe(ends.data()), 0);
    ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    close(ends[1]);
    LineReader reader(ends[0]);
    std::string joined;
    while (reader.Next(line_, milliseconds(1000)) == Outcome::kLine) joined += line_ + "\n";
    close(ends[0]);
    EXPECT_EQ(joined, text.empty() || text.back() == '\n' ? text : text + "\n");
  }
}

TEST_F(LineReaderTest, LongLinesArePieced) {
  const std::string path = ScratchPath("lines");
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  unlink(path.c_str());
  const std::string text = std::string(300'000, 'x') + "\n" + std::string(70'000, 'y');
  ASSERT_EQ(write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  lseek(fd, 0, SEEK_SET);
  LineReader reader(fd);
  EXPECT_EQ(reader.Next(line_, milliseconds(0)), Outcome::kLine);
  EXPECT_EQ(line_.size(), 300'000u);
  EXPECT_EQ(reader.Next(line_, milliseconds(0)), Outcome::kLine);
  EXPECT_EQ(line_.size(), 70'000u);
  EXPECT_EQ(reader.Next(line_, milliseconds(0)), Outcome::kEnd);
  close(fd);
}

TEST_F(LineReaderTest, AFolderIsAnError) {
  const int fd = open("/", O_RDONLY);
  LineReader reader(fd);
  EXPECT_EQ(reader.Next(line_, milliseconds(1000)), Outcome::kError);
  EXPECT_EQ(errno, EISDIR);
  close(fd);
}

}  // namespace
}  // namespace beamline::line_reader_test
