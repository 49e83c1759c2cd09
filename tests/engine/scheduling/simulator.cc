// Long because one device, its clients and what must hold of both share their state.
#include "tests/engine/scheduling/simulator.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <utility>

#include "engine/decoding/score_decoder.h"
#include "engine/runahead/pipeline.h"
#include "fmt/format.h"
#include "tests/engine/scheduling/fake_decoder.h"
#include "tests/engine/scheduling/fake_step.h"

namespace beamline {
namespace {

uint64_t Mix(uint64_t history, uint64_t token) {
  uint64_t z = history * 0x9e3779b97f4a7c15 + token + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 31);
}

// What comes here is no answer of the simulator's: the pipeline has found a contradiction.
class FaultSink final : public GenerateSink {
 public:
  explicit FaultSink(std::function<void(std::string)> error) : error_(std::move(error)) {}
  void OnFinish(absl::StatusOr<GenerateResult> result) override {
    error_(std::string(result.status().message()));
  }

 private:
  const std::function<void(std::string)> error_;
};

class Simulator {
 public:
  explicit Simulator(const SimulationOptions& options)
      : options_(options),
        random_(options.seed),
        limits_(RandomLimits()),
        scheduler_(limits_, /*share_prefixes=*/options.seed % 4 != 0),
        pipeline_(MakeSteps(), scheduler_, options.seed % 2 == 0 ? nullptr : LastGroupsFirst),
        memory_(static_cast<size_t>(limits_.num_blocks) * limits_.block_size, 0) {}

  SimulationResult Run() {
    while (result_.error.empty() &&
           (submitted_ < options_.num_requests || !scheduler_.empty() || !pipeline_.empty())) {
      if (++result_.steps > options_.max_steps) {
        Error(fmt::format("{} groups left after {} steps", scheduler_.groups().size(),
                          options_.max_steps));
        break;
      }
      now_ += std::chrono::microseconds(Uniform(1, 2000));
      SubmitSome();
      CancelSome();
      ExpireOverdue();
      RunStep();
      if (absl::Status status = scheduler_.Verify(); !status.ok()) {
        Error(std::string(status.message()));
      }
    }
    if (result_.error.empty() && scheduler_.pool().num_used() != 0)
      Error("blocks in use at the end");
    const auto clients = [](const WaitingWork& work) { return work.num_clients(); };
    if (result_.error.empty() && (waiting_.count() != 0 || waiting_.Look(clients) != 0)) {
      Error("requests or clients on the books at the end");
    }
    const int32_t answered =
        result_.finished + result_.cancelled + result_.expired_waiting + result_.expired_running;
    if (result_.error.empty() && answered != submitted_) {
      Error("a request was lost or answered twice");
    }
    return result_;
  }

 private:
  int32_t Uniform(int32_t low, int32_t high) {
    return std::uniform_int_distribution<int32_t>(low, high)(random_);
  }

  StepLimits RandomLimits() {
    StepLimits limits;
    limits.block_size = 1 << Uniform(0, 4);
    limits.max_batch_tokens = Uniform(16, 64);
    limits.max_sequences = Uniform(8, 16);
    limits.num_blocks = Uniform(8, 96);
    limits.num_lanes = options_.num_lanes;
    return limits;
  }

  Pipeline::DeviceSteps MakeSteps() {
    Pipeline::DeviceSteps steps;
    for (int32_t i = 0; i < std::max(limits_.num_lanes, 2); ++i) steps.push_back(MakeStep());
    return steps;
  }

  std::unique_ptr<DeviceStep> MakeStep() {
    return std::make_unique<FakeStep>([this](const StepBuilder& built, const DeviceEdits& edits,
                                             std::span<const BeamSearch> searches, FakeStep& step) {
      ComputeStep(built, edits, searches, step);
      return absl::OkStatus();
    });
  }

  // Groups make what they make of their results in any order.
  static void LastGroupsFirst(size_t count, absl::FunctionRef<void(size_t, size_t)> body) {
    body(count / 2, count);
    body(0, count / 2);
  }

  // As GenerateLoop::Run does, with a device that is done before the next step is planned or not.
  void RunStep() {
    const bool must_read = Uniform(0, 2) == 0;
    if (!pipeline_.empty() && (must_read || !pipeline_.PrepareLaunch())) Land();
    if (options_.vary_width) scheduler_.SetWidth(1 + result_.steps % 7);
    if (options_.vary_pieces) {
      scheduler_.SetPromptTokens({.beside_decoding = Uniform(1, 20), .alone = Uniform(1, 40)});
    }
    const absl::StatusOr<bool> launched = pipeline_.Launch(now_);
    if (!launched.ok()) Error(std::string(launched.status().message()));
    if (launched.ok() && !*launched && !scheduler_.empty() && !pipeline_.MustLand()) {
      Error("groups wait and nothing runs");
    }
    if (pipeline_.MustLand()) Land();
    pipeline_.RemoveDone();
    pipeline_.FreeEnded([] { return true; });
    for (const auto& group : scheduler_.groups()) CheckGroup(*group);
  }

  void Error(std::string message) {
    if (result_.error.empty()) {
      result_.error = fmt::format("seed {}, step {}: {}", options_.seed, result_.steps, message);
    }
  }

  void SubmitSome() {
    while (submitted_ < options_.num_requests && Uniform(0, 2) == 0) {
      auto group = std::make_unique<Group>();
      group->sink = std::make_shared<FaultSink>([this](std::string fault) { Error(fault); });
      if (Uniform(0, 5) == 0) {
        SubmitScore(std::move(group));
        continue;
      }
      const int32_t max_rows = Uniform(0, 1) == 0 ? 1 : Uniform(1, 8);
      const int32_t steps = Uniform(1, 30);
      group->rows.resize(1);
      group->rows[0].tokens = RandomPrompt();
      group->cache_salt = Uniform(0, 3) == 0 ? "other" : "";
      if (Uniform(0, 2) == 0) group->encoder_ids = RandomTokens(Uniform(1, 16));
      // As the engine refuses what could never run alone.
      // At most four tokens a step when proposals are accepted.
      const FakeKind kind =
          max_rows == 1 && Uniform(0, 2) == 0 ? FakeKind::kProposes : FakeKind(Uniform(0, 2));
      const auto total = static_cast<int32_t>(group->rows[0].tokens.size()) +
                         (kind == FakeKind::kProposes ? 4 : 1) * steps;
      if (WorstCaseBlocks(static_cast<int32_t>(group->encoder_ids.size()), max_rows, total,
                          limits_.block_size) > limits_.num_blocks) {
        ++submitted_;
        ++result_.cancelled;
        continue;
      }
      group->decoder = std::make_unique<FakeDecoder>(max_rows, steps, kind, random_());
      group->rank.arrival = now_;
      group->rank.priority = Uniform(-3, 3);
      Wait(*group);
      // A step takes a millisecond, a request up to thirty steps and its wait.
      if (Uniform(0, 2) == 0) group->deadline = now_ + std::chrono::microseconds(Uniform(1, 60000));
      scheduler_.Add(std::move(group));
      ++submitted_;
    }
  }

  // Rows that take up and drop continuations of a shared prompt, of one token at times.
  void SubmitScore(std::unique_ptr<Group> group) {
    ++submitted_;
    Sequence& row = group->rows.emplace_back();
    row.tokens = Uniform(0, 2) == 0 ? TokenIds{1} : RandomPrompt();
    if (Uniform(0, 2) == 0) group->encoder_ids = RandomTokens(Uniform(1, 16));
    std::vector<TokenIds> continuations(Uniform(1, 12));
    for (TokenIds& ids : continuations) ids = RandomTokens(Uniform(1, 20));
    ScoreLimits limits;
    limits.max_step_tokens = Uniform(1, limits_.max_sequences);
    limits.max_rows = Uniform(1, limits.max_step_tokens);
    const auto total = static_cast<int32_t>(row.tokens.size()) + 20;
    if (WorstCaseBlocks(static_cast<int32_t>(group->encoder_ids.size()), limits.max_rows, total,
                        limits_.block_size) > limits_.num_blocks) {
      ++result_.cancelled;
      return;
    }
    auto decoder = std::make_unique<ScoreDecoder>(row.tokens.back(), continuations, limits);
    row.num_logits = 1 + static_cast<int32_t>(decoder->first_proposals().size());
    row.tokens.insert(row.tokens.end(), decoder->first_proposals().begin(),
                      decoder->first_proposals().end());
    group->decoder = std::move(decoder);
    group->rank.arrival = now_;
    group->rank.priority = Uniform(-3, 3);
    Wait(*group);
    scheduler_.Add(std::move(group));
  }

  // Counts it among those that wait, of one of five clients.
  void Wait(Group& group) {
    group.client = fmt::format("client {}", submitted_ % 5);
    group.cost = 1 + submitted_ % 40;
    group.waiting = *WaitingCount::Enter(waiting_, options_.num_requests);
    group.waiting.Describe({group.rank.priority, group.client, group.cost, 1, now_},
                           /*most_tokens=*/options_.num_requests);
  }

  // Often begins as another one does.
  TokenIds RandomPrompt() {
    TokenIds prompt(Uniform(0, 1) == 0 ? 0 : Uniform(1, 30), Uniform(0, 1));
    const TokenIds rest = RandomTokens(Uniform(1, 20));
    prompt.insert(prompt.end(), rest.begin(), rest.end());
    return prompt;
  }

  TokenIds RandomTokens(int32_t count) {
    TokenIds tokens(count);
    for (int32_t& token : tokens) token = Uniform(0, 999);
    return tokens;
  }

  void CancelSome() {
    for (const auto& group : scheduler_.groups()) {
      if (Uniform(0, 99) != 0) continue;
      scheduler_.jobs().Drop(*group);
      ++result_.cancelled;
    }
    pipeline_.RemoveDone();
  }

  // As the step loop does: between steps, waiting or running.
  void ExpireOverdue() {
    for (const auto& group : scheduler_.groups()) {
      if (!group->deadline.has_value() || *group->deadline > now_) continue;
      group->decoder->Stop(FinishReason::kDeadline);
      scheduler_.jobs().Drop(*group);
      ++(group->queue_time.count() < 0 ? result_.expired_waiting : result_.expired_running);
    }
    pipeline_.RemoveDone();
  }

  void ComputeStep(const StepBuilder& built, const DeviceEdits& edits,
                   std::span<const BeamSearch> searches, FakeStep& step) {
    result_.preemptions += scheduler_.num_preempted();
    result_.overlapped_steps += limits_.num_lanes > 1 && !pipeline_.empty() ? 1 : 0;
    for (const LogitsRange& range : built.logits_ranges()) {
      if (range.group->awaits_results) Error("a group is computed before its results are read");
    }
    for (const auto& group : scheduler_.groups()) {
      result_.preempted_awaiting += group->awaits_results && !group->running ? 1 : 0;
    }
    if (scheduler_.num_step_tokens() > limits_.max_batch_tokens) Error("token budget exceeded");
    if (scheduler_.num_running_rows() > limits_.max_sequences) Error("too many rows run");
    for (const BlockCopy& copy : built.copies()) {
      std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(copy.source) * limits_.block_size,
                  limits_.block_size,
                  memory_.begin() + static_cast<std::ptrdiff_t>(copy.target) * limits_.block_size);
    }
    std::unordered_set<int32_t> written;
    WriteEncoderMemory(built.encoder_batch(), written);
    StepBatch batch = built.step_batch();
    for (const TokenFill& fill : edits.fills) {
      batch.token_ids[fill.target] = edits.words[fill.source];
    }
    result_.assumed_tokens += static_cast<int64_t>(edits.fills.size());
    for (const BeamTables& tables : edits.beam_tables) ReorderBeams(tables, edits.words, batch);
    result_.reordered_searches += static_cast<int64_t>(edits.beam_tables.size());
    for (int s = 0; s < batch.num_sequences(); ++s) WriteSequence(batch, s, written);
    CheckGroupsBut(built, edits);
    step.chosen = RandomTokens(static_cast<int32_t>(batch.logits_rows.size()) * (1 + kMaxDraws));
    step.AdvanceBeams(edits, searches);
  }

  // Searches that the device has reordered are checked once the host knows of it.
  void CheckGroupsBut(const StepBuilder& built, const DeviceEdits& edits) {
    std::unordered_set<const Group*> reordered;
    for (const BeamTables& tables : edits.beam_tables) {
      for (const UnknownToken& unknown : built.unknown_tokens()) {
        if (unknown.token == tables.first_token) reordered.insert(unknown.group);
      }
    }
    for (const auto& group : scheduler_.groups()) {
      if (!reordered.contains(group.get())) CheckGroup(*group);
    }
  }

  // What the device's ReorderBeams does.
  void ReorderBeams(const BeamTables& group, const int32_t* words, StepBatch& batch) {
    const auto entry = [&](int32_t row, int32_t column) -> int32_t& {
      return batch
          .block_tables[static_cast<size_t>(group.first_row + row) * batch.max_blocks + column];
    };
    const StepBatch before = batch;
    const auto old_entry = [&](int32_t row, int32_t column) {
      return before
          .block_tables[static_cast<size_t>(group.first_row + row) * batch.max_blocks + column];
    };
    const int32_t* parents = words + group.parent_word;
    std::vector<int32_t> free_blocks;  // of rows without children
    for (int32_t row = group.num_rows - 1; row >= 0; --row) {
      if (std::count(parents, parents + group.num_rows, row) == 0) {
        free_blocks.push_back(old_entry(row, group.column));
      }
    }
    for (int32_t row = 0; row < group.num_rows; ++row) {
      for (int32_t column = 0; column < group.column; ++column) {
        entry(row, column) = old_entry(parents[row], column);
      }
      if (group.num_filled == 0) continue;
      const int32_t source = old_entry(parents[row], group.column);
      int32_t block = source;
      if (std::count(parents, parents + row, parents[row]) > 0) {
        block = free_blocks.back();
        free_blocks.pop_back();
        std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(source) * limits_.block_size,
                    group.num_filled,
                    memory_.begin() + static_cast<std::ptrdiff_t>(block) * limits_.block_size);
      }
      entry(row, group.column) = block;
      batch.slots[group.first_token + row] = block * limits_.block_size + group.num_filled;
    }
  }

  void Write(int32_t slot, uint64_t value, std::unordered_set<int32_t>& written) {
    if (!written.insert(slot).second) Error(fmt::format("slot {} written twice in a step", slot));
    memory_[slot] = value;
  }

  void WriteEncoderMemory(const EncoderBatch& batch, std::unordered_set<int32_t>& written) {
    for (size_t token = 0; token < batch.token_ids.size(); ++token) {
      Write(batch.slots[token], Mix(7, batch.token_ids[token]), written);
    }
  }

  void WriteSequence(const StepBatch& batch, int s, std::unordered_set<int32_t>& written) {
    const int32_t* table = batch.block_tables.data() + static_cast<ptrdiff_t>(s) * batch.max_blocks;
    for (int32_t token = batch.query_offsets[s]; token < batch.query_offsets[s + 1]; ++token) {
      const int32_t position = batch.positions[token];
      uint64_t history = 0;
      if (position > 0) {
        const int32_t before = position - 1;
        history = memory_[table[before / limits_.block_size] * limits_.block_size +
                          before % limits_.block_size];
      }
      Write(batch.slots[token], Mix(history, batch.token_ids[token]), written);
    }
  }

  // What every computed position of the group holds, against its tokens.
  void CheckGroup(const Group& group) {
    for (size_t i = 0; i < group.memory.size() * limits_.block_size && i < group.encoder_ids.size();
         ++i) {
      if (At(group.memory, static_cast<int32_t>(i)) != Mix(7, group.encoder_ids[i])) {
        Error("encoder memory is wrong");
      }
    }
    for (const Sequence& row : group.rows) {
      uint64_t history = 0;
      for (int32_t position = 0; position < row.num_computed; ++position) {
        if (row.tokens[position] == kUnknownToken) break;  // checked once it is known
        history = Mix(history, row.tokens[position]);
        if (At(row.blocks, position) != history) Error("a sequence's cache is wrong");
      }
    }
  }

  uint64_t At(const BlockTable& table, int32_t position) const {
    return memory_[table[position / limits_.block_size] * limits_.block_size +
                   position % limits_.block_size];
  }

  void Land() {
    bool differ = false;
    const auto landed = pipeline_.Land(
        [&](Group& group, std::span<const RowResult> results) {
          if (results.size() != group.decoder->Requests().size()) differ = true;
          return std::optional(group.decoder->Advance(results));
        },
        [this](Group& group, const Pipeline::Progress& progress) {
          if (!progress.finished) return;
          group.done = true;
          ++result_.finished;
          result_.cached_tokens += group.cached_tokens;
        });
    if (differ) Error("logits rows and requests differ");
    if (!landed.ok()) Error(std::string(landed.status().message()));
    pipeline_.RemoveDone();
  }

  SimulationOptions options_;
  std::mt19937_64 random_;
  StepLimits limits_;
  WaitingCounter waiting_;
  Scheduler scheduler_;
  Pipeline pipeline_;
  std::vector<uint64_t> memory_;  // [num_blocks * block_size]
  Clock::time_point now_;
  int32_t submitted_ = 0;
  SimulationResult result_;
};

}  // namespace

SimulationResult Simulate(const SimulationOptions& options) { return Simulator(options).Run(); }

}  // namespace beamline
