// Texts that come as lines of a file or of standard input. Each line is a request of its own. Its
// answer, or an error with its line number, is printed in its place.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/file.h"
#include "base/line_reader.h"
#include "client/cli/cli.h"

namespace beamline::cli {

class LineSource {
 public:
  // Standard input.
  explicit LineSource(const Console& console);
  LineSource(ScopedFd file, std::string path);

  // Waits a moment for the next line. kEnd after the last line, an error or Stop.
  Client::Next Next(std::string& line);
  // Stops before the last line. Callable on any thread.
  void Stop() { stopped_ = true; }

  size_t num_lines() const { return num_lines_; }
  // Bytes of the lines so far, and of the whole input; 0: unknown. Callable on any thread.
  size_t num_bytes_so_far() const { return num_bytes_so_far_; }
  size_t num_bytes() const { return num_bytes_; }
  // Whether the lines are typed on a terminal.
  bool is_terminal() const { return is_terminal_; }
  // The source's fault, if any: it cannot be read, or has no lines. Valid after the last line.
  absl::Status status() const;
  // The read error; OK at the end of the input, even if it has no lines.
  const absl::Status& error() const { return error_; }

 private:
  const ScopedFd file_;
  LineReader reader_;
  const std::string name_;
  std::atomic<bool> stopped_ = false;
  std::atomic<size_t> num_lines_ = 0;
  std::atomic<size_t> num_bytes_so_far_ = 0;
  const size_t num_bytes_;
  const bool is_terminal_ = false;
  absl::Status error_;
};

// Opens the lines that the texts and --file of a command line select; null if the texts themselves
// are the input. No text, or "-" as text or file, selects standard input. UsageError if texts and
// --file are both given.
absl::StatusOr<std::unique_ptr<LineSource>> OpenLines(const std::vector<std::string>& texts,
                                                      const std::string& file,
                                                      const Console& console);

// Reads all lines.
absl::StatusOr<std::vector<std::string>> ReadAllLines(LineSource& lines);

// "line 3: CODE: message" on standard error.
void PrintLineError(const Console& console, size_t number, const absl::Status& status);

// The error that counts the failed lines, with the code of the first one; OK if none failed.
absl::Status LinesFailed(size_t num_failed, size_t num_lines, const absl::Status& first_error);

// Answers the lines one by one. A failed line gets an empty line, or its error as JSON or as a CSV
// row, in place of its answer.
absl::Status ForEachLine(const Session& session, LineSource& lines, Columns columns,
                         const std::function<absl::Status(const std::string&)>& answer);

}  // namespace beamline::cli
