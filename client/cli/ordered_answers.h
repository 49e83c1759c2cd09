// The answers of a stream of requests, printed in the order of the requests: each as soon as those
// before it are there.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cli/cli.h"
#include "client/cli/format.h"
#include "fmt/format.h"
#include "fmt/ostream.h"

namespace beamline::cli {

// Envelope: the contract's message of one answer, {request_id, response or error}.
template <typename Response, typename Envelope>
class OrderedAnswers {
 public:
  using Answer = absl::StatusOr<Response>;

  // `print` prints an answer for people. Everything outlives this object.
  OrderedAnswers(const Session& session, size_t count, std::function<void(const Response&)> print)
      : session_(session), print_(std::move(print)), waiting_(count) {}

  void Take(size_t place, const Answer& answer) {
    waiting_[place] = answer;
    for (; next_ < waiting_.size() && waiting_[next_].has_value(); ++next_) {
      PrintOne(*waiting_[next_]);
      waiting_[next_] = absl::UnknownError("printed");  // its memory is not needed any more
    }
  }

  // How many failed, with the code of the first one; OK when none did.
  absl::Status Result() const {
    if (first_error_.ok()) return absl::OkStatus();
    return absl::Status(first_error_.code(),
                        fmt::format("{} of {} lines failed", num_errors_, waiting_.size()));
  }

 private:
  void PrintOne(const Answer& answer) {
    const Console& console = session_.console;
    if (!answer.ok()) {
      ++num_errors_;
      first_error_.Update(answer.status());
      fmt::print(console.err, "line {}: {}: {}\n", next_ + 1,
                 absl::StatusCodeToString(answer.status().code()),
                 std::string(answer.status().message()));
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
    envelope.set_request_id(std::to_string(next_ + 1));
    if (answer.ok()) {
      *envelope.mutable_response() = *answer;
    } else {
      envelope.mutable_error()->set_code(static_cast<int>(answer.status().code()));
      envelope.mutable_error()->set_message(std::string(answer.status().message()));
    }
    return envelope;
  }

  const Session& session_;
  const std::function<void(const Response&)> print_;
  std::vector<std::optional<Answer>> waiting_;
  size_t next_ = 0;
  size_t num_errors_ = 0;
  absl::Status first_error_;
};

}  // namespace beamline::cli
