// Answers that are ready while their call is taken in, as refusals are, and that leave together. A
// poller of gRPC's sends each by itself as soon as it is given; where calls are refused by the
// thousand the sending is a fifth of what a call takes. So the poller keeps them until it has taken
// in all that has come, and sends those of one connection at once (docs/decisions/0052-bursts.md).
#pragma once

#include <cstddef>

#include "absl/functional/any_invocable.h"

namespace beamline {

// So many are kept at most: the first does not wait for long.
inline constexpr size_t kMostKeptAnswers = 32;

// Runs what ends a call: on a poller before it waits for anything, on other threads at once.
void KeepAnswer(absl::AnyInvocable<void()> answer);

// Whether the calling thread has any. Who has does nothing that takes long.
bool KeepsAnswers();

}  // namespace beamline
