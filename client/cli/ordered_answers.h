// Prints the answers to a stream of lines in the order of the lines. Each is printed once all
// earlier ones have been.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "base/status_line.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/lines.h"
#include "client/cli/progress.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {

// Envelope: the proto message of one answer, {request_id, response or error}.
template <typename Response, typename Envelope>
class OrderedAnswers {
 public:
  using Answer = absl::StatusOr<Response>;

  // How to print an answer as text and as CSV rows. In CSV the first field is the line number, from
  // 1, and the last one the error.
  struct Printers {
    std::function<void(const Response&)> table;
    Columns columns;
    std::function<void(size_t number, const Response&)> csv;
  };

  // `session` and what the printers refer to must outlive this object.
  OrderedAnswers(const Session& session, Printers printers)
      : session_(session), printers_(std::move(printers)) {}

  // Takes the answer to the line at index `place`, from 0. Calls must not overlap.
  void Take(size_t place, Answer answer) {
    waiting_.emplace(place, std::move(answer));
    for (auto next = waiting_.find(num_printed_); next != waiting_.end();
         next = waiting_.find(num_printed_)) {
      PrintOne(next->second);
      waiting_.erase(next);
      ++num_printed_;
    }
  }

  size_t num_printed() const { return num_printed_; }
  // The error that counts the failed lines, with the code of the first one; OK if none failed.
  absl::Status Result() const { return LinesFailed(num_errors_, num_printed_, first_error_); }

 private:
  void PrintOne(const Answer& answer) {
    const Console& console = session_.console;
    Output& output = session_.output;
    const size_t number = num_printed_ + 1;
    if (!answer.ok()) {
      ++num_errors_;
      first_error_.Update(answer.status());
      PrintLineError(console, number, answer.status());
      output.NoteTold();
    }
    if (output.is_json()) {
      output.Json(ToEnvelope(answer));
    } else if (output.is_csv()) {
      if (answer.ok()) printers_.csv(number, *answer);
      if (!answer.ok()) output.CsvError(printers_.columns, number, answer.status());
    } else if (answer.ok()) {
      printers_.table(*answer);
    } else {
      fmt::print(console.out, "\n");  // an empty line keeps the numbering of later lines
    }
    console.out.flush();
  }

  // Uses the line number as request_id.
  Envelope ToEnvelope(const Answer& answer) const {
    Envelope envelope;
    envelope.set_request_id(std::to_string(num_printed_ + 1));
    if (answer.ok()) {
      *envelope.mutable_response() = *answer;
    } else {
      *envelope.mutable_error() = ToProto(answer.status());
    }
    return envelope;
  }

  const Session& session_;
  const Printers printers_;
  std::map<size_t, Answer> waiting_;  // answers that wait for an earlier one
  size_t num_printed_ = 0;
  size_t num_errors_ = 0;
  absl::Status first_error_;
};

// Sends every line over one stream and prints the answers. Make: absl::StatusOr<Request>(line).
// Run: calls Client::GenerateMany or EncodeMany with a source and an OnAnswer.
template <typename Request, typename Response, typename Envelope, typename Make, typename Run>
absl::Status AnswerLines(const Session& session, LineSource& lines,
                         OrderedAnswers<Response, Envelope>& answers, const Make& make,
                         const Run& run) {
  const Client::Source<Request> source = [&](absl::StatusOr<Request>& request) {
    std::string line;
    const Client::Next next = lines.Next(line);
    if (next == Client::Next::kRequest) request = make(line);
    return next;
  };
  constexpr std::chrono::milliseconds kInterval{200};
  StatusLine progress(session.console.err,
                      CanDraw(session.console.err_is_terminal) && !lines.is_terminal(), kInterval,
                      [&](double elapsed_s, size_t width) {
                        const LineProgress so_far = {answers.num_printed(), lines.num_lines(),
                                                     lines.num_bytes_so_far(), lines.num_bytes()};
                        return FormatLineProgress(so_far, elapsed_s, width);
                      });
  const Client::OnAnswer<Response> take = [&](size_t place,
                                              const absl::StatusOr<Response>& answer) {
    const bool prints = session.console.out_is_terminal || !answer.ok();
    progress.Around(prints, [&] { answers.Take(place, answer); });
    if (!session.console.out.good()) lines.Stop();
  };
  const absl::Status end = run(source, take);
  // If the call ended before it read a line, its own error matters.
  if (!end.ok() && lines.num_lines() == 0) return end;
  if (absl::Status status = lines.status(); !status.ok()) return status;
  return end.ok() ? answers.Result() : end;
}

}  // namespace beamline::cli
