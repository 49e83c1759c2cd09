// What is kept of one request.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace beamline::loadtest {

// How a request ended. Only kError is a failure of the server.
enum class Ending {
  kOk,
  kCancelled,  // by us, as the workload asked
  kDeadline,   // the short deadline that the workload asked for
  kStopped,    // cut off because the run ended
  kError,
};

// "ok", "cancelled", "deadline", "stopped", "error".
const char* EndingName(Ending ending);

// Times since the run's start.
struct RequestRecord {
  uint64_t index = 0;
  size_t class_index = 0;
  std::string client;                    // that it was sent as; empty: none was named
  std::chrono::nanoseconds intended{0};  // when the schedule wanted it sent
  std::chrono::nanoseconds sent{0};
  std::chrono::nanoseconds end{0};
  // Arrival of every message that brought tokens; empty for unary calls.
  std::vector<std::chrono::nanoseconds> token_times;
  std::vector<int> message_tokens;  // how many each of them brought
  // Tokens of the longest returned sequence.
  int longest_sequence = 0;
  Ending ending = Ending::kOk;
  std::string code = "OK";  // the name of the status code
  std::string message;      // the error's
  int num_items = 1;        // prompts, inputs or continuations in this call
  int prompt_tokens = 0;
  int cached_tokens = 0;
  int generated_tokens = 0;
  // As the request decides them, whatever the server answers; 0: it leaves them open.
  int asked_prompt_tokens = 0;
  int asked_output_tokens = 0;

  std::chrono::nanoseconds Lateness() const { return sent - intended; }
  // From the intended time, so that a stalled client or server cannot hide the wait.
  std::chrono::nanoseconds EndToEnd() const { return end - intended; }
  // Streams alone.
  std::optional<std::chrono::nanoseconds> TimeToFirstToken() const;
  // Mean time between the tokens of a stream: the time from its first to its last message with
  // tokens, over the tokens after the first. Absent below two tokens.
  std::optional<std::chrono::nanoseconds> TimePerOutputToken() const;
};

// What a request must keep to count as good; absent: no limit.
struct Slo {
  std::optional<double> ttft_ms;
  std::optional<double> itl_ms;  // for the request's mean time between tokens
  std::optional<double> e2e_ms;

  bool IsSet() const { return ttft_ms || itl_ms || e2e_ms; }
  // Requests that did not end well are never good; limits on streams leave other calls alone.
  bool IsMetBy(const RequestRecord& record) const;
};

}  // namespace beamline::loadtest
