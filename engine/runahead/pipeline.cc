// Long because assumptions made when the next step is launched are resolved when the step lands.
#include "engine/runahead/pipeline.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "base/status.h"

namespace beamline {
namespace {

// Whether all `num_assumed` assumed rows have come true.
bool AreAll(std::span<const Pipeline::LandedRow> rows, size_t num_assumed) {
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].assumed != static_cast<int32_t>(i)) return false;
  }
  return rows.size() == num_assumed;
}

}  // namespace

Pipeline::Pipeline(DeviceSteps device_steps, Scheduler& scheduler, Parallel parallel)
    : device_steps_(std::move(device_steps)),
      scheduler_(scheduler),
      parallel_(std::move(parallel)) {
  BEAMLINE_CHECK(static_cast<int32_t>(device_steps_.size()) == (num_lanes() > 1 ? num_lanes() : 2));
}

std::optional<size_t> Pipeline::Step::FindRange(const Group& group, size_t& found) const {
  for (size_t range = found; range < ranges.size(); ++range) {
    if (ranges[range].group == &group) return found = range;
  }
  for (size_t range = 0; range < std::min(found, ranges.size()); ++range) {
    if (ranges[range].group == &group) return found = range;
  }
  return std::nullopt;
}

int32_t Pipeline::Step::LaunchedRow(size_t range, int32_t row) const {
  const auto& live = live_rows[range];
  return live.has_value() ? (*live)[row] : row;
}

bool Pipeline::PrepareLaunch() {
  if (StepBefore() == nullptr) return true;
  Step& step = *StepBefore();
  assumed_.assign(step.ranges.size(), std::span<const AssumedRow>());
  ForRanges(parallel_, step.ranges.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const Group& group = *step.ranges[i].group;
      if (group.done) continue;
      assumed_[i] = scheduler_.ChangesAnglesNext(group) ? std::nullopt : group.decoder->Assume();
    }
  });
  for (const auto& rows : assumed_) {
    if (!rows.has_value()) return false;
  }
  step.assumptions.assign(step.ranges.size(), Assumption());
  freed_.resize(step.ranges.size());
  ForRanges(parallel_, step.ranges.size(), [&](size_t begin, size_t end) {
    Workspace workspace;
    for (size_t i = begin; i < end; ++i) {
      const Group& group = *step.ranges[i].group;
      if (MayAssumeApart(group, *assumed_[i])) AssumeRows(step, i, workspace);
    }
    if (begin < end) std::swap(freed_[begin].unheld, workspace.cache.unheld);
  });
  FreeAll();
  for (size_t i = 0; i < assumed_.size(); ++i) {
    if (step.assumptions[i].rows.size() != assumed_[i]->size()) AssumeRows(step, i, workspace_);
  }
  scheduler_.Free(workspace_.cache);
  return true;
}

bool Pipeline::MayAssumeApart(const Group& group, std::span<const AssumedRow> rows) const {
  if (scheduler_.IsApart(group)) return true;
  if (rows.size() != group.rows.size()) return false;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].parent != static_cast<int32_t>(i)) return false;
  }
  return true;
}

void Pipeline::AssumeRows(Step& step, size_t range, Workspace& workspace) {
  const std::span<const AssumedRow> rows = *assumed_[range];
  if (rows.empty()) return;
  Group& group = *step.ranges[range].group;
  Assumption& assumption = step.assumptions[range];
  assumption.rows = rows;
  if (rows.front().choice == AssumedRow::Choice::kBeam) {
    BEAMLINE_CHECK(step.searches[range] >= 0);
    assumption.search = group.decoder->Beams();
    assumption.beams = step.device->SearchWords(step.searches[range]);
    assumption.parents_unknown = group.rows.size() > 1;
  }
  workspace.forks.clear();
  for (const AssumedRow& row : rows) {
    workspace.forks.push_back({.parent = row.parent, .token = kUnknownToken});
  }
  scheduler_.Fork(group, workspace.forks, workspace.cache);
}

int32_t Pipeline::TokenWord(const Step& step, size_t range, int32_t row) {
  const Assumption& assumption = step.assumptions[range];
  const AssumedRow& assumed = assumption.rows[row];
  if (assumed.choice == AssumedRow::Choice::kBeam) return assumption.beams.tokens + assumed.index;
  const int32_t request = step.ranges[range].begin + step.LaunchedRow(range, assumed.parent);
  const int32_t draw = assumed.choice == AssumedRow::Choice::kDraw ? assumed.index : -1;
  return step.device->TokenWord(request, draw);
}

const Pipeline::Assumption* Pipeline::AssumptionOf(const Group& group, size_t& found) {
  Step* const before = StepBefore();
  if (before == nullptr) return nullptr;
  const std::optional<size_t> range = before->FindRange(group, found);
  if (!range.has_value() || before->assumptions[*range].rows.empty()) return nullptr;
  return &before->assumptions[*range];
}

std::optional<int32_t> Pipeline::PrepareStep(Clock::time_point now) {
  for (int32_t tried = 0; tried < num_lanes(); ++tried) {
    const int32_t lane = (next_lane_ + tried) % num_lanes();
    // With several lanes, a lane continues from results; a single lane continues from assumptions.
    if (num_lanes() > 1 && std::ranges::find(steps_, lane, &Step::lane) != steps_.end()) continue;
    if (!scheduler_.PrepareStep(now, lane, parallel_)) continue;
    next_lane_ = (lane + 1) % num_lanes();
    return lane;
  }
  return std::nullopt;
}

absl::StatusOr<bool> Pipeline::Launch(Clock::time_point now) {
  BEAMLINE_CHECK(steps_.size() < device_steps_.size());
  const Step* const before = StepBefore();
  BEAMLINE_CHECK(before == nullptr || before->assumptions.size() == before->ranges.size());
  idle_ = true;
  const std::optional<int32_t> lane = PrepareStep(now);
  if (!lane.has_value()) return false;
  Step step = Describe(now);
  step.lane = *lane;
  step.device = device_steps_[next_device_step_].get();
  WriteEdits();
  CollectRequests(step);
  BEAMLINE_RETURN_IF_ERROR(step.device->Start(scheduler_.step(), edits_, requests_, searches_));
  next_device_step_ = (next_device_step_ + 1) % device_steps_.size();
  for (const LogitsRange& range : step.ranges) range.group->awaits_results = num_lanes() > 1;
  steps_.push_back(std::move(step));
  idle_ = false;
  return true;
}

Pipeline::Step Pipeline::Describe(Clock::time_point now) const {
  const StepBuilder& built = scheduler_.step();
  Step step;
  step.ranges.assign(built.logits_ranges().begin(), built.logits_ranges().end());
  step.searches.resize(step.ranges.size(), -1);
  step.live_rows.resize(step.ranges.size());
  step.started = now;
  step.report.phase = built.num_prefill_tokens() == 0 ? StepReport::Phase::kDecode
                      : built.num_decode_rows() == 0  ? StepReport::Phase::kPrefill
                                                      : StepReport::Phase::kMixed;
  step.report.num_tokens = scheduler_.num_step_tokens();
  step.report.num_prompt_tokens = built.num_prefill_tokens();
  step.report.num_sequences = built.step_batch().num_sequences();
  return step;
}

void Pipeline::WriteEdits() {
  const Step* const before = StepBefore();
  edits_.words = before != nullptr ? before->device->words() : nullptr;
  edits_.fills.clear();
  edits_.beam_tables.clear();
  const Group* group = nullptr;
  const Assumption* assumption = nullptr;
  size_t found = 0;
  for (const UnknownToken& unknown : scheduler_.step().unknown_tokens()) {
    if (unknown.group != group) {
      group = unknown.group;
      assumption = AssumptionOf(*group, found);
    }
    BEAMLINE_CHECK(assumption != nullptr);
    edits_.fills.push_back({TokenWord(*before, found, unknown.row), unknown.token});
    if (assumption->parents_unknown && unknown.row == 0) AddBeamTables(unknown, *assumption);
  }
}

void Pipeline::AddBeamTables(const UnknownToken& first, const Assumption& assumption) {
  const StepBatch& batch = scheduler_.step().step_batch();
  const auto num_rows = static_cast<int32_t>(first.group->rows.size());
  // One token of each row, adjacent in the batch.
  BEAMLINE_CHECK(first.sequence + num_rows <= batch.num_sequences());
  BEAMLINE_CHECK(batch.query_offsets[first.sequence + num_rows] == first.token + num_rows);
  const int32_t position = batch.context_lengths[first.sequence] - 1;
  edits_.beam_tables.push_back({.first_row = first.sequence,
                                .first_token = first.token,
                                .num_rows = num_rows,
                                .parent_word = assumption.beams.parents,
                                .column = position / scheduler_.block_size(),
                                .num_filled = position % scheduler_.block_size()});
}

void Pipeline::CollectRequests(Step& step) {
  requests_.clear();
  searches_.clear();
  size_t found = 0;
  for (size_t i = 0; i < step.ranges.size(); ++i) {
    const LogitsRange& range = step.ranges[i];
    const Assumption* assumption = AssumptionOf(*range.group, found);
    if (assumption == nullptr) {
      for (const RowRequest& request : range.group->decoder->Requests()) {
        requests_.push_back(&request);
      }
    } else {
      for (const AssumedRow& row : assumption->rows) requests_.push_back(row.request);
    }
    AppendSearch(range, assumption, step, i);
  }
}

void Pipeline::AppendSearch(const LogitsRange& range, const Assumption* assumption, Step& step,
                            size_t index) {
  const std::optional<BeamRequest> beams =
      assumption == nullptr ? range.group->decoder->Beams() : assumption->search;
  if (!beams.has_value()) return;
  step.searches[index] = static_cast<int32_t>(searches_.size());
  BeamSearch& search = searches_.emplace_back();
  search.first_row = range.begin;
  search.num_rows = range.count;
  search.width = beams->width;
  search.end_ids = beams->end_ids;
  search.renormalize = beams->renormalize;
  if (assumption == nullptr) {
    search.scores = beams->scores;
  } else {
    search.score_word = assumption->beams.scores;
  }
}

absl::StatusOr<StepReport> Pipeline::Land(Decode decode, Advance advance) {
  BEAMLINE_CHECK(!empty());
  Step step = std::move(steps_.front());
  steps_.pop_front();
  LetGo(step.ended);
  for (const LogitsRange& range : step.ranges) range.group->awaits_results = false;
  BEAMLINE_RETURN_IF_ERROR(step.device->Wait());
  DecodeAll(step, decode);
  for (size_t i = 0; i < step.ranges.size(); ++i) {
    Group& group = *step.ranges[i].group;
    if (group.done) continue;
    const Decoded& decoded = decoded_[i];
    advance(group, decoded.progress);
    if (group.done || decoded.continued) continue;
    BEAMLINE_CHECK(decoded.progress.decoded);
    if (decoded.device_agrees) {
      Continue(step, i, workspace_);
    } else {
      group.Answer(
          absl::InternalError("the device went on with other beams than their scores say"));
    }
  }
  scheduler_.Free(workspace_.cache);
  const Clock::time_point now = Clock::now();
  // A step that was launched after another one starts when that one is done.
  step.report.duration = now - std::max(step.started, last_landing_);
  last_landing_ = now;
  return step.report;
}

void Pipeline::DecodeAll(const Step& step, Decode decode) {
  decoded_.resize(step.ranges.size());
  freed_.resize(step.ranges.size());
  ForRanges(parallel_, step.ranges.size(), [&](size_t begin, size_t end) {
    Workspace workspace;
    workspace.found = begin;
    for (size_t i = begin; i < end; ++i) {
      Group& group = *step.ranges[i].group;
      if (group.done) continue;
      Decoded& decoded = decoded_[i] = DecodeRange(step, i, decode, workspace);
      const Progress& progress = decoded.progress;
      if (!progress.decoded || progress.finished || !decoded.device_agrees) continue;
      if (!MayContinueApart(step, i)) continue;
      Continue(step, i, workspace);
      decoded.continued = true;
    }
    if (begin < end) std::swap(freed_[begin].unheld, workspace.cache.unheld);
  });
  FreeAll();
}

void Pipeline::FreeAll() {
  // In the order of the ranges, whichever threads had them.
  for (GroupCache::Workspace& freed : freed_) {
    if (!freed.unheld.empty()) scheduler_.Free(freed);
  }
}

bool Pipeline::MayContinueApart(const Step& step, size_t range) const {
  const Group& group = *step.ranges[range].group;
  if (scheduler_.IsApart(group)) return true;
  // All rows only get their tokens; nothing else changes.
  if (step.assumptions.empty()) return false;
  const Assumption& assumption = step.assumptions[range];
  const std::span<const Continuation> rows = decoded_[range].rows;
  if (assumption.parents_unknown || rows.size() != assumption.rows.size()) return false;
  return std::ranges::none_of(group.rows,
                              [&](const Sequence& row) { return scheduler_.FillsItsBlock(row); });
}

Pipeline::Decoded Pipeline::DecodeRange(const Step& step, size_t range, Decode decode,
                                        Workspace& workspace) {
  Group& group = *step.ranges[range].group;
  const auto rows = decode(group, LiveResults(step, range, workspace.some_results));
  Decoded decoded;
  if (!rows.has_value()) return decoded;
  decoded.rows = *rows;
  decoded.progress = {.decoded = true,
                      .finished = group.decoder->finished(),
                      .num_generated_tokens = group.decoder->num_generated_tokens(),
                      .num_computed_tokens = group.decoder->num_computed_tokens()};
  decoded.device_agrees = DeviceAgrees(step, range, *rows);
  return decoded;
}

std::span<const RowResult> Pipeline::LiveResults(const Step& step, size_t range,
                                                 std::vector<RowResult>& some) {
  const auto launched = step.device->Results(static_cast<size_t>(step.ranges[range].begin),
                                             static_cast<size_t>(step.ranges[range].count));
  const auto& live_rows = step.live_rows[range];
  if (!live_rows.has_value()) return launched;
  some.clear();
  for (const int32_t row : *live_rows) some.push_back(launched[row]);
  return some;
}

bool Pipeline::DeviceAgrees(const Step& step, size_t range,
                            std::span<const Continuation> continuations) {
  const int32_t search = step.searches[range];
  if (search < 0) return true;
  const BeamWords words = step.device->SearchWords(search);
  const auto parents = step.device->HostWords(words.parents, continuations.size());
  const auto tokens = step.device->HostWords(words.tokens, continuations.size());
  for (size_t i = 0; i < continuations.size(); ++i) {
    if (parents[i] != step.LaunchedRow(range, continuations[i].parent)) return false;
    if (tokens[i] != continuations[i].token) return false;
  }
  return true;
}

void Pipeline::Continue(const Step& step, size_t range, Workspace& workspace) {
  Group& group = *step.ranges[range].group;
  const Decoded& decoded = decoded_[range];
  if (step.assumptions.empty() || step.assumptions[range].rows.empty()) {
    scheduler_.Fork(group, decoded.rows, workspace.cache);
    return;
  }
  const Assumption& assumption = step.assumptions[range];
  BEAMLINE_CHECK(decoded.rows.size() <= assumption.rows.size());
  workspace.landed.clear();
  for (const Continuation& row : decoded.rows) {
    workspace.landed.push_back({row.assumed, row.parent, row.token});
  }
  Settle(group, assumption, decoded, workspace);
  if (empty()) return;
  Step& behind = steps_.back();
  const std::optional<size_t> next = behind.FindRange(group, workspace.found);
  if (!next.has_value()) return;
  if (AreAll(workspace.landed, static_cast<size_t>(behind.ranges[*next].count))) return;
  std::vector<int32_t>& live_rows = behind.live_rows[*next].emplace();
  for (const LandedRow& row : workspace.landed) live_rows.push_back(row.assumed);
}

void Pipeline::Settle(Group& group, const Assumption& assumption, const Decoded& decoded,
                      Workspace& workspace) {
  const Sequence& first = group.rows.front();
  const bool launched = first.num_computed == static_cast<int32_t>(first.tokens.size());
  if (assumption.parents_unknown && !launched) {
    // The rows were not part of a step yet: they fork as if nothing had been assumed.
    workspace.forks.assign(decoded.rows.begin(), decoded.rows.end());
    for (Continuation& fork : workspace.forks) fork.num_dropped = 1;
    scheduler_.Fork(group, workspace.forks, workspace.cache);
    return;
  }
  if (assumption.parents_unknown) {
    // Beams that the search did not find keep their place (AdvanceBeamsParams).
    workspace.parents.resize(group.rows.size());
    std::iota(workspace.parents.begin(), workspace.parents.end(), 0);
    for (const LandedRow& row : workspace.landed) workspace.parents[row.assumed] = row.parent;
    scheduler_.Reorder(group, workspace.parents, workspace.cache);
  }
  workspace.known_rows.clear();
  for (const LandedRow& row : workspace.landed) {
    workspace.known_rows.push_back({row.assumed, row.token});
  }
  scheduler_.Settle(group, workspace.known_rows, workspace.cache);
}

void Pipeline::RemoveDone() {
  if (!empty()) return scheduler_.RemoveDone(steps_.back().ended);
  std::vector<std::unique_ptr<Group>> ended;
  scheduler_.RemoveDone(ended);
  LetGo(ended);
}

void Pipeline::LetGo(std::vector<std::unique_ptr<Group>>& groups) {
  for (std::unique_ptr<Group>& group : groups) {
    // Ends what the group holds or counts for others.
    group->ticket = Ticket();
    group->work = WorkShare();
    group->sink.reset();
    ended_.push_back(std::move(group));
  }
  groups.clear();
}

void Pipeline::FreeEnded(absl::FunctionRef<bool()> may_go_on) {
  while (!ended_.empty() && (ended_.size() > kMostEnded || may_go_on())) ended_.pop_back();
}

}  // namespace beamline
