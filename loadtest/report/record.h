// The record of one request.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace beamline::loadtest {

// How a request ended. Only kError counts as a failure of the server.
enum class Ending {
  kOk,
  kCancelled,  // by us, as the workload asks
  kDeadline,   // at the short deadline that the workload asks for
  kStopped,    // because the run ended
  kError,
};

// "ok", "cancelled", "deadline", "stopped", "error".
const char* EndingName(Ending ending);

// All times are since the run's start.
struct RequestRecord {
  uint64_t index = 0;
  size_t class_index = 0;
  std::string client;                    // its client id; empty: none
  std::chrono::nanoseconds intended{0};  // send time in the schedule
  std::chrono::nanoseconds sent{0};
  std::chrono::nanoseconds end{0};
  // Arrival times of all messages with tokens; empty for unary calls.
  std::vector<std::chrono::nanoseconds> token_times;
  std::vector<int> message_tokens;  // number of tokens in each of them
  // Tokens of the longest returned sequence.
  int longest_sequence = 0;
  Ending ending = Ending::kOk;
  std::string code = "OK";  // the name of the status code
  std::string message;      // the error's
  int num_items = 1;        // prompts, inputs or continuations in this call
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int generated_tokens = 0;
  // Lengths that the request itself fixes; 0: it leaves them open.
  int asked_prompt_tokens = 0;
  int asked_output_tokens = 0;

  std::chrono::nanoseconds Lateness() const { return sent - intended; }
  // Measured from the intended time, so that a stalled client or server does not hide the wait.
  std::chrono::nanoseconds EndToEnd() const { return end - intended; }
  // Streams only.
  std::optional<std::chrono::nanoseconds> TimeToFirstToken() const;
  // Mean time between the tokens of a stream: the time from its first to its last message with
  // tokens, divided by the tokens after the first. Absent below two tokens.
  std::optional<std::chrono::nanoseconds> TimePerOutputToken() const;
};

// Limits that a request must meet to count as good; absent: no limit.
struct Slo {
  std::optional<double> ttft_ms;
  std::optional<double> itl_ms;  // limits the request's mean time between tokens
  std::optional<double> e2e_ms;

  bool IsSet() const { return ttft_ms || itl_ms || e2e_ms; }
  // Only successful requests are good. Limits on streams do not apply to other calls.
  bool IsMetBy(const RequestRecord& record) const;
};

}  // namespace beamline::loadtest
