// The answers of a stream of lines, printed in the order of the lines: each as soon as those before
// it are there.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "client/cli/lines.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {

// Envelope: the contract's message of one answer, {request_id, response or error}.
template <typename Response, typename Envelope>
class OrderedAnswers {
 public:
  using Answer = absl::StatusOr<Response>;

  // `print` prints an answer for people. Everything outlives this object.
  OrderedAnswers(const Session& session, std::function<void(const Response&)> print)
      : session_(session), print_(std::move(print)) {}

  // The answer of the line at `place`, from 0. One call at a time.
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
  // How many failed, with the code of the first one; OK when none did.
  absl::Status Result() const { return LinesFailed(num_errors_, num_printed_, first_error_); }

 private:
  void PrintOne(const Answer& answer) {
    const Console& console = session_.console;
    if (!answer.ok()) {
      ++num_errors_;
      first_error_.Update(answer.status());
      PrintLineError(console, num_printed_ + 1, answer.status());
    }
    if (session_.options.json) {
      fmt::print(console.out, "{}\n", ToJson(ToEnvelope(answer)));
    } else if (answer.ok()) {
      print_(*answer);
    } else {
      fmt::print(console.out, "\n");  // the lines after it keep their places
    }
    console.out.flush();
  }

  // Under the number of the line.
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
  const std::function<void(const Response&)> print_;
  std::map<size_t, Answer> waiting_;  // those that have come before one in front of them
  size_t num_printed_ = 0;
  size_t num_errors_ = 0;
  absl::Status first_error_;
};

// Sends every line over one stream and prints the answers. Make: absl::StatusOr<Request>(line).
// Run: Client::GenerateMany or EncodeMany of a source and an OnAnswer.
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
  const Client::OnAnswer<Response> take = [&](size_t place,
                                              const absl::StatusOr<Response>& answer) {
    answers.Take(place, answer);
    if (!session.console.out.good()) lines.Stop();
  };
  const absl::Status end = run(source, take);
  // A call that ended before it took a line says nothing of the lines.
  if (!end.ok() && lines.num_lines() == 0) return end;
  if (absl::Status status = lines.status(); !status.ok()) return status;
  return end.ok() ? answers.Result() : end;
}

}  // namespace beamline::cli
