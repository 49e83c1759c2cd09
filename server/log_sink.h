// Where the lines of the log are written.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "spdlog/sinks/sink.h"

namespace beamline {

// Writes lines to a descriptor, in the order in which they come and each in one piece. A line that
// comes alone is written at once; others that follow within kWindow of the last writing wait for
// its end and are written together, by a thread that sleeps where there are none. A line above
// level info waits for nothing, and all before it are written with it.
class LogSink final : public spdlog::sinks::sink {
 public:
  static constexpr std::chrono::milliseconds kWindow{10};
  static constexpr size_t kMostWaiting = 64 << 10;  // bytes

  // `fd` stays the caller's, and outlives it. What cannot be written is dropped.
  explicit LogSink(int fd);
  // Writes what waits.
  ~LogSink() override;

  // Any thread.
  void log(const spdlog::details::log_msg& message) override;
  void flush() override;
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

  // For the handler of a signal that ends the process: writes what waits without a lock. A line
  // that another thread adds meanwhile may be lost.
  void WriteInSignalHandler();

 private:
  void Run();
  void WriteWaiting();
  void WriteAll(std::string_view bytes) const;

  const int fd_;
  std::mutex mutex_;  // guards all below
  std::condition_variable wake_;
  std::unique_ptr<spdlog::formatter> formatter_;
  spdlog::memory_buf_t line_;
  std::array<char, kMostWaiting> waiting_;
  std::atomic<size_t> num_waiting_{0};  // bytes
  spdlog::log_clock::time_point written_;
  bool ends_ = false;
  std::thread thread_;  // last: it uses the others
};

// The one of the process: what waits is written also where a signal of a fault ends it (SIGSEGV,
// SIGABRT and their like). To be called once.
std::shared_ptr<LogSink> CrashProofLogSink(int fd);

}  // namespace beamline
