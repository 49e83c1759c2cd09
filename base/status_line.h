// A line on a terminal that tells how far work has come, drawn again and again in its place.
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
  // The line, of at most `width` characters of ASCII; more are cut. Called on a thread of the
  // line's own, and never while Around's function runs.
  using Text = std::function<std::string(double elapsed_s, size_t width)>;

  // `out` is standard error. Nothing is drawn unless `is_shown`.
  StatusLine(std::ostream& out, bool is_shown, std::chrono::milliseconds interval, Text text);
  // Clears the line.
  ~StatusLine();
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  // Runs what prints to the same terminal, or changes what the text is made of. `prints`: the line
  // is taken away for it.
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
  std::mutex mutex_;  // guards what follows, `out_` and what text_ reads
  std::condition_variable wake_;
  bool is_drawn_ = false;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace beamline
