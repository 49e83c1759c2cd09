// Tokenizes a request: as a whole, or, of a request with many inputs, input by input, so that
// several threads share them (engine/serving/tokenizing.h).
#pragma once

#include <concepts>
#include <cstddef>

#include "absl/status/status.h"
#include "base/status.h"

namespace beamline {

// An intake that has its request tokenized input by input: StartInputs, then TokenizeInput once for
// each, on any thread, several at once, then FinishInputs. An error of any is the request's answer,
// of several inputs that of the first.
template <typename Intake>
concept HasInputs = requires(Intake& intake, const Intake& same, typename Intake::Job& job) {
  { same.num_inputs() } -> std::same_as<size_t>;
  { same.input_bytes(size_t{}) } -> std::same_as<size_t>;  // of its text
  { intake.StartInputs(job) } -> std::same_as<absl::Status>;
  { intake.TokenizeInput(size_t{}, job) } -> std::same_as<absl::Status>;
  { intake.FinishInputs(job) } -> std::same_as<absl::Status>;
};

// Tokenizes on this thread, and checks what only that can show. An error is the request's answer.
template <typename Intake>
absl::Status TokenizeJob(Intake& intake, typename Intake::Job& job) {
  if constexpr (HasInputs<Intake>) {
    BEAMLINE_RETURN_IF_ERROR(intake.StartInputs(job));
    for (size_t i = 0; i < intake.num_inputs(); ++i) {
      BEAMLINE_RETURN_IF_ERROR(intake.TokenizeInput(i, job));
    }
    return intake.FinishInputs(job);
  } else {
    return intake.Complete(job);
  }
}

}  // namespace beamline
