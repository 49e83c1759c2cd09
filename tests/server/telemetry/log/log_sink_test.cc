#include "server/telemetry/log/log_sink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "spdlog/logger.h"

namespace beamline::log_sink_test {
namespace {

// What is written to a descriptor, each writing by itself.
class Written {
 public:
  Written() {
    int ends[2] = {};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    read_ = ends[0];
    fd_ = ends[1];
    // Room for all that a test writes.
    constexpr int kBytes = 4 << 20;
    setsockopt(fd_, SOL_SOCKET, SO_SNDBUF, &kBytes, sizeof(kBytes));
  }
  ~Written() {
    close(read_);
    close(fd_);
  }
  int fd() const { return fd_; }
  // The next writing, which may come within a minute; empty: none does.
  std::string Next(int patience_ms = 60000) const {
    pollfd readable = {.fd = read_, .events = POLLIN, .revents = 0};
    if (poll(&readable, 1, patience_ms) != 1) return "";
    std::string bytes(1 << 20, '\0');
    bytes.resize(static_cast<size_t>(recv(read_, bytes.data(), bytes.size(), 0)));
    return bytes;
  }
  // What has been written by now.
  std::string Now() const {
    std::string all;
    for (std::string one = Next(0); !one.empty(); one = Next(0)) all += one;
    return all;
  }

 private:
  int read_ = -1, fd_ = -1;
};

class LogSinkTest : public testing::Test {
 protected:
  LogSinkTest() {
    sink_->set_pattern("%v");
    logger_ = std::make_unique<spdlog::logger>("test", sink_);
  }
  void End() {
    logger_.reset();
    sink_.reset();
  }

  Written written_;
  std::shared_ptr<LogSink> sink_ = std::make_shared<LogSink>(written_.fd());
  std::unique_ptr<spdlog::logger> logger_;
};

TEST_F(LogSinkTest, ALineAloneIsWrittenAtOnce) {
  logger_->info("one");
  EXPECT_EQ(written_.Now(), "one\n");
}

TEST_F(LogSinkTest, WhatWaitsIsWrittenSoon) {
  logger_->info("one");
  logger_->info("two");
  logger_->info("three");
  std::string all;
  while (all.size() < 14) {
    const std::string more = written_.Next();
    ASSERT_FALSE(more.empty());
    all += more;
  }
  EXPECT_EQ(all, "one\ntwo\nthree\n");
}

TEST_F(LogSinkTest, ManyLinesAreWrittenTogetherInTheirOrder) {
  constexpr int kThreads = 3;
  constexpr int kLines = 4000;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kLines; ++i) logger_->info("{} {}", thread, i);
    });
  }
  int num_writings = 0;
  std::array<int, kThreads> next = {};
  for (int seen = 0; seen < kThreads * kLines; ++num_writings) {
    std::string lines = written_.Next();
    ASSERT_TRUE(lines.ends_with('\n'));
    for (size_t end = 0; !lines.empty(); lines.erase(0, end + 1), ++seen) {
      end = lines.find('\n');
      const auto thread = static_cast<size_t>(lines[0] - '0');
      ASSERT_LT(thread, next.size());
      EXPECT_EQ(lines.substr(0, end), fmt::format("{} {}", thread, next[thread]++));
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(written_.Now(), "");
  EXPECT_LT(num_writings, kThreads * kLines / 4);
}

TEST_F(LogSinkTest, AWarningWaitsForNothing) {
  logger_->info("one");
  logger_->info("two");
  logger_->warn("three");
  EXPECT_EQ(written_.Now(), "one\ntwo\nthree\n");
}

TEST_F(LogSinkTest, TheEndAndAFlushWriteWhatWaits) {
  for (int i = 0; i < 3; ++i) logger_->info("{}", i);
  logger_->flush();
  EXPECT_EQ(written_.Now(), "0\n1\n2\n");
  for (int i = 0; i < 3; ++i) logger_->info("{}", i);
  End();
  EXPECT_EQ(written_.Now(), "0\n1\n2\n");
}

TEST_F(LogSinkTest, LinesOfAnySizeKeepTheirOrder) {
  std::string expected;
  for (const size_t size : {size_t{10}, LogSink::kMostWaiting - 20, size_t{30},
                            LogSink::kMostWaiting + 1, size_t{10}}) {
    const std::string line(size, static_cast<char>('a' + size % 26));
    logger_->info(line);
    expected += line + "\n";
  }
  End();
  EXPECT_TRUE(written_.Now() == expected);
}

TEST_F(LogSinkTest, WhatCannotBeWrittenHoldsNobodyUp) {
  LogSink sink(-1);
  spdlog::logger logger("test", std::shared_ptr<LogSink>(&sink, [](LogSink*) {}));
  for (int i = 0; i < 10000; ++i) logger.info("nowhere");
}

// A process that ends by a fault has written what it had logged.
TEST(LogSinkDeathTest, LinesAreWrittenBeforeAFaultEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const int signal : {SIGABRT, SIGSEGV}) {
    const auto crash = [signal] {
      spdlog::logger logger("test", CrashProofLogSink(STDERR_FILENO));
      logger.set_pattern("%v");
      for (int i = 0; i < 100; ++i) logger.info("line {}", i);
      signal == SIGABRT ? std::abort() : static_cast<void>(std::raise(signal));
    };
    EXPECT_DEATH(crash(), "line 0\n(.*\n)*line 99\n");
  }
}

}  // namespace
}  // namespace beamline::log_sink_test
