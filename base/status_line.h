// A progress line on a terminal, redrawn in place.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <ostream>
#include <string>
#include <thread>

namespace beamline {

class StatusLine {
 public:
  // Returns the line: ASCII, cut to `width` characters. Called on a thread of the StatusLine, never
  // while Around runs its function.
  using Text = std::function<std::string(double elapsed_s, size_t width)>;

  // `out` must be standard error. Draws only if `is_shown`.
  StatusLine(std::ostream& out, bool is_shown, std::chrono::milliseconds interval, Text text);
  // Clears the line.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Runs `work`, which may print to the same terminal or change the data that `text` reads.
  // `prints`: removes the line meanwhile.
  void Around(bool prints, const std::function<void()>& work);

 private:
  void Loop();
  void Draw();
  void Clear();

  std::ostream& out_;
  const bool is_shown_;
  const std::chrono::milliseconds interval_;
  const Text text_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::mutex mutex_;  // guards the members below, `out_` and the data that text_ reads
  std::condition_variable wake_;
  bool is_drawn_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace beamline
