#include "base/standard_streams.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <ostream>
#include <string>

#include "base/fd_stream.h"

namespace beamline::standard_streams_test {
namespace {

using testing::HasSubstr;

TEST(StandardStreams, ABrokenPipeIsAnErrorOfTheStream) {
  PrepareStandardStreams();
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  close(ends[0]);
  FdStreambuf buffer(ends[1]);
  std::ostream out(&buffer);
  out << "text";
  EXPECT_TRUE(out.good());
  out.flush();
  EXPECT_FALSE(out.good());
  EXPECT_EQ(buffer.error(), EPIPE);
  EXPECT_THAT(std::string(OutputError(buffer.error()).message()), HasSubstr("Broken pipe"));
  close(ends[1]);
}

TEST(StandardStreams, WritesEverything) {
  std::array<int, 2> ends;
  ASSERT_EQ(pipe(ends.data()), 0);
  const std::string text(20'000, 'x');
  {
    FdStreambuf buffer(ends[1]);
    std::ostream out(&buffer);
    out << text << 'y';
    EXPECT_EQ(buffer.error(), 0);
  }
  close(ends[1]);
  std::string read_back;
  std::array<char, 4096> piece;
  for (ssize_t size; (size = read(ends[0], piece.data(), piece.size())) > 0;) {
    read_back.append(piece.data(), static_cast<size_t>(size));
  }
  close(ends[0]);
  EXPECT_EQ(read_back, text + 'y');
}

TEST(StandardStreams, TheFirstErrorIsKept) {
  const int full = open("/dev/full", O_WRONLY);
  FdStreambuf buffer(full);
  std::ostream out(&buffer);
  out << std::string(20'000, 'x');
  EXPECT_FALSE(out.good());
  EXPECT_EQ(buffer.error(), ENOSPC);
  close(full);
}

}  // namespace
}  // namespace beamline::standard_streams_test
