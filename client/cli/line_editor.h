// Lines that a person edits on a terminal: cursor keys, history and search, by libedit, which reads
// ~/.editrc as it does for every program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace beamline::cli {

// Whether the terminal of this process can be drawn on: TERM is not dumb, and terminfo knows it.
bool CanEditLines();

class LineEditor {
 public:
  struct Options {
    int in = -1;   // descriptor of a terminal
    int out = -1;  // likewise; prompts and the edited line are written to it
    std::string prompt;
    std::vector<std::string> completions;  // that Tab completes at the beginning of a line
    std::string history_file;              // read now, and written by SaveHistory; empty: none
  };

  // INVALID_ARGUMENT where the history file is no such file. UNAVAILABLE where libedit has no room.
  static absl::StatusOr<std::unique_ptr<LineEditor>> Open(Options options);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line, without its end; nullopt at the end of the input. A signal that ends the process
  // leaves the terminal as it was.
  std::optional<std::string> Next();
  // Writes the lines to the history file, which only its owner may read.
  absl::Status SaveHistory();

 private:
  class Session;  // of libedit

  explicit LineEditor(std::unique_ptr<Session> session);

  std::unique_ptr<Session> session_;
};

}  // namespace beamline::cli
