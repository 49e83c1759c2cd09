#include "loadtest/progress_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <utility>

#include "fmt/format.h"
#include "loadtest/report/progress.h"

namespace beamline::loadtest {
namespace {

// Back to the line's begin, and what stands there is cleared.
constexpr char kClear[] = "\r\x1b[K";

// A longer line would break, and could not be written over. The text is ASCII.
std::string FitToTerminal(std::string line) {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1) {
    line.resize(std::min<size_t>(line.size(), size.ws_col - 1));
  }
  return line;
}

}  // namespace

ProgressLine::ProgressLine(const Recorder& recorder, const Generator& generator, double warmup_s,
                           double until_s, std::string prefix)
    : recorder_(recorder),
      generator_(generator),
      warmup_s_(warmup_s),
      until_s_(until_s),
      prefix_(std::move(prefix)) {
  if (isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { Loop(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  fmt::print(stderr, "{}", kClear);
}

void ProgressLine::Loop() {
  std::unique_lock lock(mutex_);
  auto next = RunClock::Steady::now();
  while (true) {
    next += std::chrono::seconds(1);
    if (wake_.wait_until(lock, next, [this] { return stopping_; })) return;
    const std::string line = prefix_ + FormatProgress(recorder_.ProgressAt(clock_.Now()),
                                                      generator_.num_sent(), warmup_s_, until_s_);
    fmt::print(stderr, "{}{}", kClear, FitToTerminal(line));
    std::fflush(stderr);
  }
}

}  // namespace beamline::loadtest
