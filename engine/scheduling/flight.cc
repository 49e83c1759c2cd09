#include "engine/scheduling/flight.h"

namespace beamline {

Flight::Flight(std::span<const LogitsRange> launched)
    : ranges(launched.begin(), launched.end()), live_rows(launched.size()) {}

void AppendRequests(const LogitsRange& range, std::vector<const RowRequest*>& requests) {
  if (range.group->assumed.empty()) {
    for (const RowRequest& request : range.group->decoder->Requests()) requests.push_back(&request);
  } else {
    for (const AssumedRow& row : range.group->assumed) requests.push_back(&row.request);
  }
}

bool AssumeResults(Flight& flight, absl::FunctionRef<int32_t(int32_t, int32_t)> token_word,
                   Scheduler& scheduler) {
  std::vector<std::span<const AssumedRow>> assumptions(flight.ranges.size());
  for (size_t i = 0; i < flight.ranges.size(); ++i) {
    if (flight.ranges[i].group->done) continue;
    const auto rows = flight.ranges[i].group->decoder->Assume();
    if (!rows.has_value()) return false;
    assumptions[i] = *rows;
  }
  std::vector<int32_t> words;
  for (size_t i = 0; i < flight.ranges.size(); ++i) {
    if (assumptions[i].empty()) continue;  // ends with this step
    words.clear();
    for (const AssumedRow& row : assumptions[i]) {
      const auto& live_rows = flight.live_rows[i];
      const int32_t launched = live_rows.has_value() ? (*live_rows)[row.parent] : row.parent;
      words.push_back(token_word(flight.ranges[i].begin + launched, row.draw));
    }
    Group& group = *flight.ranges[i].group;
    scheduler.Assume(group, assumptions[i], words);
    group.assumed = assumptions[i];
  }
  return true;
}

std::span<const RowResult> LiveResults(const Flight& flight, size_t range,
                                       std::span<const RowResult> results,
                                       std::vector<RowResult>& live) {
  const auto launched = results.subspan(flight.ranges[range].begin, flight.ranges[range].count);
  const auto& live_rows = flight.live_rows[range];
  if (!live_rows.has_value()) return launched;
  live.clear();
  for (const int32_t row : *live_rows) live.push_back(launched[row]);
  return live;
}

void Continue(Group& group, std::span<const Continuation> continuations, Flight* next,
              Scheduler& scheduler) {
  if (group.assumed.empty()) {
    scheduler.Fork(group, continuations);
    return;
  }
  group.assumed = {};
  scheduler.Settle(group, continuations);
  if (next == nullptr) return;
  for (size_t i = 0; i < next->ranges.size(); ++i) {
    if (next->ranges[i].group != &group) continue;
    std::vector<int32_t>& live_rows = next->live_rows[i].emplace();
    for (const Continuation& row : continuations) live_rows.push_back(row.assumed);
  }
}

}  // namespace beamline
