#include "engine/runahead/flight.h"

namespace beamline {

Flight::Flight(std::span<const LogitsRange> launched)
    : ranges(launched.begin(), launched.end()),
      searches(launched.size(), -1),
      live_rows(launched.size()) {}

std::optional<size_t> Flight::FindRange(const Group& group) {
  for (size_t tried = 0; tried < ranges.size(); ++tried) {
    if (next_range_ == ranges.size()) next_range_ = 0;
    const size_t range = next_range_++;
    if (ranges[range].group == &group) return range;
  }
  return std::nullopt;
}

void AppendRequests(const LogitsRange& range, std::vector<const RowRequest*>& requests) {
  if (range.group->assumed.empty()) {
    for (const RowRequest& request : range.group->decoder->Requests()) requests.push_back(&request);
  } else {
    for (const AssumedRow& row : range.group->assumed) requests.push_back(&row.request);
  }
}

bool AppendSearch(const LogitsRange& range, std::vector<BeamSearch>& searches) {
  const auto beams = range.group->decoder->Beams();
  if (!beams.has_value()) return false;
  BeamSearch& search = searches.emplace_back();
  search.first_row = range.begin;
  search.num_rows = range.count;
  search.width = beams->width;
  search.end_ids = beams->end_ids;
  search.renormalize = beams->renormalize;
  if (range.group->assumed.empty()) {
    search.scores = beams->scores;
  } else {
    search.score_word = range.group->beam_words.scores;
  }
  return true;
}

bool AssumeResults(Flight& flight, const ResultWords& result_words, Scheduler& scheduler) {
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
    Group& group = *flight.ranges[i].group;
    if (assumptions[i].front().choice == AssumedRow::Choice::kBeam) {
      group.beam_words = result_words.beams(flight.searches[i]);
      group.parents_unknown = group.rows.size() > 1;
    }
    words.clear();
    for (const AssumedRow& row : assumptions[i]) {
      if (row.choice == AssumedRow::Choice::kBeam) {
        words.push_back(group.beam_words.tokens + row.index);
        continue;
      }
      const auto& live_rows = flight.live_rows[i];
      const int32_t launched = live_rows.has_value() ? (*live_rows)[row.parent] : row.parent;
      const int32_t draw = row.choice == AssumedRow::Choice::kDraw ? row.index : -1;
      words.push_back(result_words.token(flight.ranges[i].begin + launched, draw));
    }
    scheduler.Assume(group, assumptions[i], words);
    group.assumed = assumptions[i];
  }
  return true;
}

bool ChoseTheSame(const Flight& flight, size_t range, std::span<const Continuation> continuations,
                  std::span<const int32_t> parents, std::span<const int32_t> tokens) {
  const auto& live_rows = flight.live_rows[range];
  for (size_t i = 0; i < continuations.size(); ++i) {
    const int32_t parent = continuations[i].parent;
    const int32_t launched = live_rows.has_value() ? (*live_rows)[parent] : parent;
    if (parents[i] != launched || tokens[i] != continuations[i].token) return false;
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
  group.parents_unknown = false;
  if (next == nullptr) return;
  const std::optional<size_t> range = next->FindRange(group);
  if (!range.has_value()) return;
  std::vector<int32_t>& live_rows = next->live_rows[*range].emplace();
  for (const Continuation& row : continuations) live_rows.push_back(row.assumed);
}

}  // namespace beamline
