// Texts that come as lines, of a file or of standard input: each is a request of its own and gets
// an answer, or an error under its number, in its place.
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
  // Ends the lines early. Any thread.
  void Stop() { stopped_ = true; }

  size_t num_lines() const { return num_lines_; }
  // Of the lines so far and of all of them; 0: not known. Any thread.
  size_t num_bytes_so_far() const { return num_bytes_so_far_; }
  size_t num_bytes() const { return num_bytes_; }
  // Whether a person writes them.
  bool is_terminal() const { return is_terminal_; }
  // What is wrong with the source as a whole: it cannot be read, or has no line. To be asked at the
  // end.
  absl::Status status() const;
  // That it cannot be read; OK at the end of the lines, of none too.
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

// The lines that the texts and the --file of a command line mean, null when they are the texts
// themselves. No text, and "-" for text or file, is standard input. Texts and --file together are a
// UsageError.
absl::StatusOr<std::unique_ptr<LineSource>> OpenLines(const std::vector<std::string>& texts,
                                                      const std::string& file,
                                                      const Console& console);

// All lines, to the end.
absl::StatusOr<std::vector<std::string>> ReadAllLines(LineSource& lines);

// "line 3: CODE: message" on standard error.
void PrintLineError(const Console& console, size_t number, const absl::Status& status);

// The error that tells how many of the lines failed, with the first one's code; OK when none did.
absl::Status LinesFailed(size_t num_failed, size_t num_lines, const absl::Status& first_error);

// Answers the lines one after the other. The one that fails has an empty line for its answer, or
// its error as JSON or as a row of CSV.
absl::Status ForEachLine(const Session& session, LineSource& lines, Columns columns,
                         const std::function<absl::Status(const std::string&)>& answer);

}  // namespace beamline::cli
