// A terminal that a program has for itself for a while, and gives back as it was.
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

// Of the terminal on a descriptor; 80 x 24 when it does not tell.
ScreenSize SizeOfTerminal(int fd);

// At most one at a time: it takes the process's signals.
class Screen {
 public:
  enum class Event { kNone, kQuit, kRedraw };

  // Keys come from `in`, when that is a terminal; what is shown goes to `out`, the terminal
  // `out_fd`.
  Screen(int in, int out_fd, std::ostream& out);
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool has_keys() const { return saved_.has_value(); }
  // Can be read when there is something to Take.
  std::span<const int> descriptors() const { return descriptors_; }
  // What keys and signals ask for: q and ^C to quit, ^L and a new size to draw again; after ^Z the
  // process stops here, and draws again when it goes on. SIGINT, SIGTERM, SIGHUP and SIGQUIT quit
  // too.
  Event Take();
  // The signal that asked to quit; 0: none.
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
  std::optional<termios> saved_;        // of `in`, while keys are read
  std::array<int, 2> pipe_ = {-1, -1};  // from the handler of signals
  std::vector<int> descriptors_;
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH};
  std::array<struct sigaction, kSignals.size()> old_actions_ = {};
  int signal_ = 0;
};

}  // namespace beamline::cli
