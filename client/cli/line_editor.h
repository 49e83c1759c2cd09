// Line editing on a terminal: cursor keys, history and search. Uses libedit, which reads ~/.editrc
// as in every program.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace beamline::cli {

// Whether TERM names a terminal that libedit can control: not "dumb", and with a terminfo entry.
bool CanEditLines();

class LineEditor {
 public:
  struct Options {
    int in = -1;   // descriptor of a terminal
    int out = -1;  // likewise; prompts and the edited line are written to it
    std::string prompt;
    std::vector<std::string> completions;  // Tab completes these at the start of a line
    std::string history_file;              // loaded by Open, written by SaveHistory; empty: none
  };

  // INVALID_ARGUMENT if the file is not a history file; UNAVAILABLE if libedit has no memory.
  static absl::StatusOr<std::unique_ptr<LineEditor>> Open(Options options);
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // The next line, without its line end; nullopt at the end of the input. A signal that ends the
  // process restores the terminal first.
  std::optional<std::string> Next();
  // Writes the history file, which only its owner can read.
  absl::Status SaveHistory();

 private:
  class Session;  // of libedit

  explicit LineEditor(std::unique_ptr<Session> session);

  std::unique_ptr<Session> session_;
};

}  // namespace beamline::cli
