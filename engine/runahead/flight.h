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
  std::vector<int32_t> searches;  // of each range, its number among the step's; -1: no search
  // Of each range, the rows that the step before left alive; nullopt: all.
  std::vector<std::optional<std::vector<int32_t>>> live_rows;
  // Groups that ended while this was the last step launched: it may still refer to them.
  std::vector<std::unique_ptr<Group>> ended;

  explicit Flight(std::span<const LogitsRange> launched);

  // The group's range. Quick when asked in the order of the ranges, in which steps mostly agree.
  std::optional<size_t> FindRange(const Group& group);

 private:
  size_t next_range_ = 0;
};

// What the rows of a range ask for: the decoder's requests, or those of its assumed rows.
void AppendRequests(const LogitsRange& range, std::vector<const RowRequest*>& requests);

// Appends the search of a range whose beams the backend may choose; false when it has none.
bool AppendSearch(const LogitsRange& range, std::vector<BeamSearch>& searches);

// Where the device will find the results of a flight: a request's draw of this number (-1: its best
// candidate), and a search's beams.
struct ResultWords {
  absl::FunctionRef<int32_t(int32_t request, int32_t draw)> token;
  absl::FunctionRef<BeamWords(int32_t search)> beams;
};

// Appends to the groups the tokens that `flight` will bring. False, and nothing is appended: the
// results must be read first.
bool AssumeResults(Flight& flight, const ResultWords& words, Scheduler& scheduler);

// Whether a range's search chose what its decoder did. parents, tokens: [width], the search's.
bool ChoseTheSame(const Flight& flight, size_t range, std::span<const Continuation> continuations,
                  std::span<const int32_t> parents, std::span<const int32_t> tokens);

// The results of a range whose rows still live. `results`: of the flight; `live`: memory for them.
std::span<const RowResult> LiveResults(const Flight& flight, size_t range,
                                       std::span<const RowResult> results,
                                       std::vector<RowResult>& live);

// Gives a group that goes on its next rows, or settles those that were assumed. `next`: the step
// launched behind the one that was read, or null.
void Continue(Group& group, std::span<const Continuation> continuations, Flight* next,
              Scheduler& scheduler);

}  // namespace beamline
