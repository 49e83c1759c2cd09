#include "client/cli/lines.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "client/cli/format.h"
#include "fmt/format.h"
#include "fmt/ostream.h"
#include "google/rpc/status.pb.h"

namespace beamline::cli {
namespace {

size_t SizeOfFile(int fd) {
  struct stat file {};
  return fstat(fd, &file) == 0 && S_ISREG(file.st_mode) ? static_cast<size_t>(file.st_size) : 0;
}

}  // namespace

LineSource::LineSource(const Console& console)
    : reader_(console.in),
      name_("standard input"),
      num_bytes_(SizeOfFile(console.in)),
      is_terminal_(isatty(console.in) == 1) {}

LineSource::LineSource(ScopedFd file, std::string path)
    : file_(std::move(file)),
      reader_(file_.get()),
      name_(std::move(path)),
      num_bytes_(SizeOfFile(file_.get())) {}

Client::Next LineSource::Next(std::string& line) {
  constexpr std::chrono::milliseconds kMoment{50};
  if (stopped_) return Client::Next::kEnd;
  switch (reader_.Next(line, kMoment)) {
    case LineReader::Outcome::kLine:
      ++num_lines_;
      num_bytes_so_far_ += line.size() + 1;
      return Client::Next::kRequest;
    case LineReader::Outcome::kNotYet:
      return Client::Next::kNotYet;
    case LineReader::Outcome::kError:
      error_ = absl::InvalidArgumentError(
          fmt::format("{} cannot be read: {}", name_, std::generic_category().message(errno)));
      break;
    case LineReader::Outcome::kEnd:
      break;
  }
  return Client::Next::kEnd;
}

absl::Status LineSource::status() const {
  if (!error_.ok() || num_lines_ > 0) return error_;
  return UsageError(fmt::format("there is no text: give one, or lines on {}", name_));
}

absl::StatusOr<std::unique_ptr<LineSource>> OpenLines(const std::vector<std::string>& texts,
                                                      const std::string& file,
                                                      const Console& console) {
  if (!file.empty() && !texts.empty()) return UsageError("texts and --file exclude each other");
  if (!file.empty() && file != "-") {
    auto opened = OpenFile("--file", file);
    if (!opened.ok()) return UsageError(std::string(opened.status().message()));
    return std::make_unique<LineSource>(*std::move(opened), file);
  }
  if (texts.empty() || texts == std::vector<std::string>{"-"}) {
    return std::make_unique<LineSource>(console);
  }
  return nullptr;
}

absl::StatusOr<std::vector<std::string>> ReadAllLines(LineSource& lines) {
  std::vector<std::string> all;
  std::string line;
  for (auto next = lines.Next(line); next != Client::Next::kEnd; next = lines.Next(line)) {
    if (next == Client::Next::kRequest) all.push_back(line);
  }
  if (!lines.status().ok()) return lines.status();
  return all;
}

void PrintLineError(const Console& console, size_t number, const absl::Status& status) {
  console.err << ErrorLine(fmt::format("line {}", number), ErrorText(status));
}

absl::Status LinesFailed(size_t num_failed, size_t num_lines, const absl::Status& first_error) {
  if (num_failed == 0) return absl::OkStatus();
  return absl::Status(first_error.code(),
                      fmt::format("{} of {} lines failed", num_failed, num_lines));
}

namespace {

// Prints what replaces the answer of a failed line.
void PrintLineInPlace(const Session& session, Columns columns, size_t number,
                      const absl::Status& status) {
  Output& output = session.output;
  if (output.is_json()) {
    fmt::print(session.console.out, "{{\"error\":{}}}\n", ErrorJson(status));
  } else if (output.is_csv()) {
    output.CsvError(columns, number, status);
  } else {
    fmt::print(session.console.out, "\n");  // an empty line keeps the numbering of later lines
  }
  output.NoteTold();
}

}  // namespace

absl::Status ForEachLine(const Session& session, LineSource& lines, Columns columns,
                         const std::function<absl::Status(const std::string&)>& answer) {
  const Console& console = session.console;
  size_t num_failed = 0;
  absl::Status first_error;
  std::string line;
  for (auto next = lines.Next(line); next != Client::Next::kEnd; next = lines.Next(line)) {
    if (next == Client::Next::kNotYet) continue;
    const absl::Status status = answer(line);
    if (!status.ok()) {
      ++num_failed;
      first_error.Update(status);
      PrintLineError(console, lines.num_lines(), status);
      PrintLineInPlace(session, columns, lines.num_lines(), status);
    }
    console.out.flush();
    if (!console.out.good()) lines.Stop();
  }
  if (!lines.status().ok()) return lines.status();
  return LinesFailed(num_failed, lines.num_lines(), first_error);
}

}  // namespace beamline::cli
