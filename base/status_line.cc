#include "base/status_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace beamline {
namespace {

// Returns to the line's start and clears the line.
constexpr char kClear[] = "\r\x1b[K";

// A longer line would wrap and could not be overwritten.
size_t WidthOfTerminal() {
  constexpr size_t kUsual = 80;
  winsize size{};
  const bool tells = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return (tells ? size.ws_col : kUsual) - 1;
}

}  // namespace

StatusLine::StatusLine(std::ostream& out, bool is_shown, std::chrono::milliseconds interval,
                       Text text)
    : out_(out), is_shown_(is_shown), interval_(interval), text_(std::move(text)) {
  if (is_shown_) thread_ = std::thread([this] { Loop(); });
}

StatusLine::~StatusLine() {
  if (!is_shown_) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
  Clear();
}

void StatusLine::Around(bool prints, const std::function<void()>& work) {
  const std::lock_guard lock(mutex_);
  const bool was_drawn = is_drawn_;
  if (prints) Clear();
  work();
  if (prints && was_drawn) Draw();
}

void StatusLine::Loop() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, interval_, [this] { return stopping_; })) Draw();
}

void StatusLine::Draw() {
  const auto elapsed = std::chrono::steady_clock::now() - begin_;
  const size_t width = WidthOfTerminal();
  std::string line = text_(std::chrono::duration<double>(elapsed).count(), width);
  line.resize(std::min(line.size(), width));
  out_ << kClear << line << std::flush;
  is_drawn_ = true;
}

void StatusLine::Clear() {
  if (is_drawn_) out_ << kClear << std::flush;
  is_drawn_ = false;
}

}  // namespace beamline
