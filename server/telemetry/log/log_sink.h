// The sink that writes log lines.
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

// Writes lines to a descriptor, in order and each in one piece. A line is written at once if the
// last write is at least kWindow ago. Otherwise it waits for the end of kWindow, and a thread
// writes all waiting lines together. That thread sleeps while no line waits. A line above level
// info is written at once, with all before it.
class LogSink final : public spdlog::sinks::sink {
 public:
  static constexpr std::chrono::milliseconds kWindow{10};
  static constexpr size_t kMostWaiting = 64 << 10;  // bytes

  // The caller keeps `fd`, which outlives the sink. Lines that cannot be written are dropped.
  explicit LogSink(int fd);
  // Writes waiting lines.
  ~LogSink() override;

  // Any thread.
  void log(const spdlog::details::log_msg& message) override;
  void flush() override;
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

  // For the handler of a signal that ends the process: writes waiting lines without a lock. A line
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
  std::thread thread_;  // last, as it uses the other members
};

// The process's sink. It also writes waiting lines when a fault signal ends the process (SIGSEGV,
// SIGABRT and the like). Call once.
std::shared_ptr<LogSink> CrashProofLogSink(int fd);

}  // namespace beamline
