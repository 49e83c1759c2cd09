// A step that the device has been given and nobody has read yet, and what planning behind it needs:
// its results assumed, and the assumption settled when they are there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "engine/scheduling/scheduler.h"

namespace beamline {

struct Flight {
  std::vector<LogitsRange> ranges;
  // Of each range, the rows that the step before left alive; nullopt: all.
  std::vector<std::optional<std::vector<int32_t>>> live_rows;
  // Groups that ended while this was the last step launched: it may still refer to them.
  std::vector<std::unique_ptr<Group>> ended;

  explicit Flight(std::span<const LogitsRange> launched);
};

// What the rows of a range ask for: the decoder's requests, or those of its assumed rows.
void AppendRequests(const LogitsRange& range, std::vector<const RowRequest*>& requests);

// Appends to the groups the tokens that `flight` will bring. token_word(request, draw): where the
// device will find them. False, and nothing is appended: the results must be read first.
bool AssumeResults(Flight& flight, absl::FunctionRef<int32_t(int32_t, int32_t)> token_word,
                   Scheduler& scheduler);

// The results of a range whose rows still live. `results`: of the flight; `live`: memory for them.
std::span<const RowResult> LiveResults(const Flight& flight, size_t range,
                                       std::span<const RowResult> results,
                                       std::vector<RowResult>& live);

// Gives a group that goes on its next rows, or settles those that were assumed. `next`: the step
// launched behind the one that was read, or null.
void Continue(Group& group, std::span<const Continuation> continuations, Flight* next,
              Scheduler& scheduler);

}  // namespace beamline
