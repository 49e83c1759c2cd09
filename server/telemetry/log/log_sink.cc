#include "server/telemetry/log/log_sink.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "spdlog/pattern_formatter.h"

namespace beamline {
namespace {

// Signals of a fault that ends the process.
constexpr std::array kCrashSignals = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV};
std::array<struct sigaction, kCrashSignals.size()> handlers_before;
std::atomic<LogSink*> crash_sink{nullptr};

// Writes waiting lines, then lets the process end as it would without this handler.
void OnCrash(int signal, siginfo_t* info, void*) {
  const int error = errno;
  if (LogSink* const sink = crash_sink.exchange(nullptr)) sink->WriteInSignalHandler();
  for (size_t i = 0; i < kCrashSignals.size(); ++i) {
    if (kCrashSignals[i] == signal) sigaction(signal, &handlers_before[i], nullptr);
  }
  // Only if a process sent it. Otherwise the instruction faults again.
  if (info->si_code <= 0) raise(signal);
  errno = error;
}

}  // namespace

LogSink::LogSink(int fd) : fd_(fd), formatter_(std::make_unique<spdlog::pattern_formatter>()) {
  // Signals are for other threads, and this one may start before they are blocked.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogSink::~LogSink() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void LogSink::log(const spdlog::details::log_msg& message) {
  bool wakes = false;
  {
    std::lock_guard lock(mutex_);
    line_.clear();
    formatter_->format(message, line_);
    size_t waiting = num_waiting_.load(std::memory_order_relaxed);
    if (waiting + line_.size() > waiting_.size()) {
      WriteWaiting();
      waiting = 0;
    }
    if (line_.size() > waiting_.size()) return WriteAll({line_.data(), line_.size()});
    std::memcpy(waiting_.data() + waiting, line_.data(), line_.size());
    num_waiting_.store(waiting + line_.size(), std::memory_order_release);
    // The clock may be set back, so that the last write is in the future.
    const bool is_alone = std::chrono::abs(message.time - written_) >= kWindow;
    if (message.level > spdlog::level::info || is_alone) {
      written_ = message.time;
      return WriteWaiting();
    }
    wakes = waiting == 0;
  }
  if (wakes) wake_.notify_one();
}

void LogSink::flush() {
  std::lock_guard lock(mutex_);
  WriteWaiting();
}

void LogSink::set_pattern(const std::string& pattern) {
  set_formatter(std::make_unique<spdlog::pattern_formatter>(pattern));
}

void LogSink::set_formatter(std::unique_ptr<spdlog::formatter> formatter) {
  std::lock_guard lock(mutex_);
  formatter_ = std::move(formatter);
}

void LogSink::WriteInSignalHandler() {
  WriteAll({waiting_.data(), num_waiting_.exchange(0, std::memory_order_acquire)});
}

std::shared_ptr<LogSink> CrashProofLogSink(int fd) {
  const std::shared_ptr<LogSink> sink(new LogSink(fd), [](LogSink* over) {
    crash_sink = nullptr;
    delete over;
  });
  crash_sink = sink.get();
  struct sigaction handler = {};
  handler.sa_sigaction = OnCrash;
  handler.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&handler.sa_mask);
  for (size_t i = 0; i < kCrashSignals.size(); ++i) {
    sigaction(kCrashSignals[i], &handler, &handlers_before[i]);
  }
  return sink;
}

void LogSink::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return ends_ || num_waiting_.load() > 0; });
    wake_.wait_for(lock, kWindow, [this] { return ends_; });
    WriteWaiting();
    written_ = spdlog::log_clock::now();
    if (ends_) return;
  }
}

void LogSink::WriteWaiting() {
  WriteAll({waiting_.data(), num_waiting_.load(std::memory_order_relaxed)});
  num_waiting_.store(0, std::memory_order_release);
}

void LogSink::WriteAll(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t size = write(fd_, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(size));
  }
}

}  // namespace beamline
