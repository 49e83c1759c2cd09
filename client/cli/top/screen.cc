#include "client/cli/top/screen.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string_view>

#include "base/check.h"

namespace beamline::cli {
namespace {

constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l";  // alternate screen, hidden cursor
constexpr char kLeave[] = "\x1b[?25h\x1b[?1049l";
constexpr char kHome[] = "\x1b[H";
constexpr char kClearLine[] = "\x1b[K";
constexpr char kClearBelow[] = "\x1b[J";

constexpr unsigned char Control(char letter) { return static_cast<unsigned char>(letter) & 0x1F; }

std::atomic<int> signal_pipe = -1;  // the handler writes here

void OnSignal(int signal) {
  const int saved = errno;
  const auto byte = static_cast<unsigned char>(signal);
  // If the pipe is full, it already holds a signal.
  [[maybe_unused]] const ssize_t written = write(signal_pipe.load(), &byte, 1);
  errno = saved;
}

bool CanRead(int fd) {
  pollfd ready = {fd, POLLIN, 0};
  return poll(&ready, 1, 0) > 0;
}

}  // namespace

ScreenSize SizeOfTerminal(int fd) {
  ScreenSize size;
  winsize window{};
  if (ioctl(fd, TIOCGWINSZ, &window) != 0) return size;
  if (window.ws_col > 0) size.width = window.ws_col;
  if (window.ws_row > 0) size.height = window.ws_row;
  return size;
}

Screen::Screen(int in, int out_fd, std::ostream& out) : in_(in), out_fd_(out_fd), out_(out) {
  BEAMLINE_CHECK(pipe2(pipe_.data(), O_CLOEXEC | O_NONBLOCK) == 0);
  BEAMLINE_CHECK(signal_pipe.exchange(pipe_[1]) == -1);
  struct sigaction action {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaction(kSignals[i], &action, &old_actions_[i]);
    // Signals that the parent process ignores (nohup) stay ignored.
    if (old_actions_[i].sa_handler == SIG_IGN) sigaction(kSignals[i], &old_actions_[i], nullptr);
  }
  descriptors_ = {pipe_[0]};
  termios now{};
  if (isatty(in_) == 1 && tcgetattr(in_, &now) == 0) {
    saved_ = now;
    descriptors_.push_back(in_);
  }
  Enter();
}

Screen::~Screen() {
  Leave();
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &old_actions_[i], nullptr);
  signal_pipe = -1;
  for (const int end : pipe_) close(end);
}

void Screen::Enter() {
  if (saved_) {
    termios keys = *saved_;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(in_, TCSAFLUSH, &keys);
  }
  out_ << kEnter << std::flush;
}

void Screen::Leave() {
  out_ << kLeave << std::flush;
  if (saved_) tcsetattr(in_, TCSAFLUSH, &*saved_);
}

Screen::Event Screen::Take() {
  const Event asked = TakeSignals();
  const Event pressed = TakeKeys();
  if (asked == Event::kQuit || pressed == Event::kQuit) return Event::kQuit;
  return asked == Event::kRedraw ? asked : pressed;
}

Screen::Event Screen::TakeSignals() {
  Event event = Event::kNone;
  unsigned char signal = 0;
  while (read(pipe_[0], &signal, 1) == 1) {
    if (signal == SIGWINCH) {
      event = Event::kRedraw;
    } else {
      signal_ = signal;
    }
  }
  return signal_ != 0 ? Event::kQuit : event;
}

Screen::Event Screen::TakeKeys() {
  Event event = Event::kNone;
  while (has_keys() && descriptors_.size() > 1 && CanRead(in_)) {
    std::array<unsigned char, 64> keys;
    const ssize_t size = read(in_, keys.data(), keys.size());
    if (size <= 0) {  // the terminal is gone
      descriptors_.pop_back();
      return Event::kQuit;
    }
    for (const unsigned char key : std::span(keys).first(static_cast<size_t>(size))) {
      if (key == 'q' || key == 'Q' || key == Control('C')) return Event::kQuit;
      if (key == Control('L')) event = Event::kRedraw;
      if (key != Control('Z')) continue;
      Leave();
      raise(SIGTSTP);
      Enter();
      event = Event::kRedraw;
    }
  }
  return event;
}

void Screen::Show(const std::vector<std::string>& lines) {
  std::string text = kHome;
  for (size_t i = 0; i < lines.size(); ++i) {
    text += (i > 0 ? "\r\n" : "") + lines[i] + kClearLine;
  }
  out_ << text << kClearBelow << std::flush;
}

}  // namespace beamline::cli
