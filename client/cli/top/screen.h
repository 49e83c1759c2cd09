// Takes over the terminal for full-screen output, and restores it at the end.
#pragma once

#include <termios.h>

#include <array>
#include <csignal>
#include <cstddef>
#include <optional>
#include <ostream>
#include <span>
#include <string>
#include <vector>

namespace beamline::cli {

struct ScreenSize {
  size_t width = 80;
  size_t height = 24;
};

// The size of the terminal on a descriptor; 80 x 24 if unknown.
ScreenSize SizeOfTerminal(int fd);

// At most one may exist at a time, because it installs signal handlers.
class Screen {
 public:
  enum class Event { kNone, kQuit, kRedraw };

  // Reads keys from `in` if that is a terminal. Output goes to `out`, which writes to the terminal
  // `out_fd`.
  Screen(int in, int out_fd, std::ostream& out);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool has_keys() const { return saved_.has_value(); }
  // Readable when Take may return an event.
  std::span<const int> descriptors() const { return descriptors_; }
  // The event of pending keys and signals. q and ^C quit; ^L and a new window size redraw. ^Z stops
  // the process here and redraws when it continues. SIGINT, SIGTERM, SIGHUP and SIGQUIT also quit.
  Event Take();
  // The signal that caused kQuit; 0: none.
  int signal() const { return signal_; }

  ScreenSize size() const { return SizeOfTerminal(out_fd_); }
  void Show(const std::vector<std::string>& lines);

 private:
  void Enter();
  void Leave();
  Event TakeSignals();
  Event TakeKeys();

  const int in_;
  const int out_fd_;
  std::ostream& out_;
  std::optional<termios> saved_;        // original settings of `in`, while keys are read
  std::array<int, 2> pipe_ = {-1, -1};  // written by the signal handler
  std::vector<int> descriptors_;
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
  std::array<struct sigaction, kSignals.size()> old_actions_ = {};
  int signal_ = 0;
};

}  // namespace beamline::cli
