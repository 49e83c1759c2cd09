// Long because the loop, the fake device and the checks share one state.
#include "tests/engine/scheduling/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "engine/decoding/score_decoder.h"
#include "engine/runahead/flight.h"
#include "tests/engine/scheduling/fake_decoder.h"

namespace beamline {
namespace {

uint64_t Mix(uint64_t history, uint64_t token) {
  uint64_t z = history * 0x9e3779b97f4a7c15 + token + 1;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 31);
}

class Simulator {
 public:
  explicit Simulator(const SimulationOptions& options)
      : options_(options),
        random_(options.seed),
        limits_(RandomLimits()),
        num_blocks_(Uniform(8, 96)),
        scheduler_(limits_, num_blocks_, /*share_prefixes=*/options.seed % 4 != 0),
        memory_(static_cast<size_t>(num_blocks_) * limits_.block_size, 0) {}

  SimulationResult Run() {
    while (result_.error.empty() &&
           (submitted_ < options_.num_requests || !scheduler_.empty() || last_.has_value())) {
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
    if (result_.error.empty() && scheduler_.num_clients() != 0) {
      Error("clients on the books at the end");
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

  PlannerLimits RandomLimits() {
    PlannerLimits limits;
    limits.block_size = 1 << Uniform(0, 4);
    limits.max_batch_tokens = Uniform(16, 64);
    limits.max_rows = Uniform(8, 16);
    limits.watermark_blocks = Uniform(0, 3);
    return limits;
  }

  // A step that the fake device has computed, with the tokens that it chose.
  struct Step {
    Flight flight;
    // Of each logits row its best candidate, then kMaxDraws draws; then the searches' beams.
    std::vector<int32_t> words;
    size_t num_rows = 0;
    std::vector<BeamWords> searches;  // the scores are 1, or 0 for beams that were not found
  };
  static constexpr float kScore = 0.0f;
  static int32_t Word(int32_t request, int32_t draw) {
    return request * (1 + kMaxDraws) + 1 + draw;
  }

  // As GenerateLoop::Run does, with a device that is done before the next step is planned or not.
  void RunStep() {
    const bool must_read = Uniform(0, 2) == 0;
    const auto beams = [&](int32_t search) { return last_->searches[search]; };
    if (last_.has_value() &&
        (must_read || !AssumeResults(last_->flight, {.token = Word, .beams = beams}, scheduler_))) {
      Step step = *std::exchange(last_, std::nullopt);
      Land(step, nullptr);
      RemoveDone();
    }
    std::optional<Step> earlier = std::exchange(last_, std::nullopt);
    if (scheduler_.PrepareStep(now_, earlier.has_value() ? earlier->words.data() : nullptr)) {
      last_ = ComputeStep(earlier);
    } else if (!scheduler_.empty() && !earlier.has_value()) {
      Error("groups wait and nothing runs");
    }
    if (earlier.has_value()) Land(*earlier, last_.has_value() ? &last_->flight : nullptr);
    RemoveDone();
    for (const auto& group : scheduler_.groups()) CheckGroup(*group);
  }

  void RemoveDone() {
    if (last_.has_value()) {
      scheduler_.RemoveDone(last_->flight.ended);
    } else {
      scheduler_.RemoveDone();
    }
  }

  void Error(std::string message) {
    if (result_.error.empty()) {
      result_.error = fmt::format("seed {}, step {}: {}", options_.seed, result_.steps, message);
    }
  }

  void SubmitSome() {
    while (submitted_ < options_.num_requests && Uniform(0, 2) == 0) {
      auto group = std::make_unique<Group>();
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
                          limits_.block_size) > num_blocks_) {
        ++submitted_;
        ++result_.cancelled;
        continue;
      }
      group->decoder = std::make_unique<FakeDecoder>(max_rows, steps, kind, random_());
      group->rank.arrival = now_;
      group->rank.priority = Uniform(-3, 3);
      group->client = fmt::format("client {}", submitted_ % 5);
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
    limits.max_step_tokens = Uniform(1, limits_.max_rows);
    limits.max_rows = Uniform(1, limits.max_step_tokens);
    const auto total = static_cast<int32_t>(row.tokens.size()) + 20;
    if (WorstCaseBlocks(static_cast<int32_t>(group->encoder_ids.size()), limits.max_rows, total,
                        limits_.block_size) > num_blocks_) {
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
    group->client = fmt::format("client {}", submitted_ % 5);
    scheduler_.Add(std::move(group));
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
      group->done = true;
      ++result_.cancelled;
    }
    RemoveDone();
  }

  // As the step loop does: between steps, waiting or running.
  void ExpireOverdue() {
    for (const auto& group : scheduler_.groups()) {
      if (!group->deadline.has_value() || *group->deadline > now_) continue;
      group->decoder->Stop(FinishReason::kDeadline);
      group->done = true;
      ++(group->queue_time.count() < 0 ? result_.expired_waiting : result_.expired_running);
    }
    RemoveDone();
  }

  Step ComputeStep(const std::optional<Step>& earlier) {
    const StepBuilder& step = scheduler_.step();
    result_.preemptions += scheduler_.num_preempted();
    if (scheduler_.num_step_tokens() > limits_.max_batch_tokens) Error("token budget exceeded");
    if (scheduler_.num_running_rows() > limits_.max_rows) Error("too many rows run");
    for (const BlockCopy& copy : step.copies()) {
      std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(copy.source) * limits_.block_size,
                  limits_.block_size,
                  memory_.begin() + static_cast<std::ptrdiff_t>(copy.target) * limits_.block_size);
    }
    std::unordered_set<int32_t> written;
    WriteEncoderMemory(step.encoder_batch(), written);
    StepBatch batch = step.step_batch();
    for (const TokenFill& fill : batch.fills) {
      batch.token_ids[fill.target] = batch.fill_words[fill.source];
    }
    result_.assumed_tokens += static_cast<int64_t>(batch.fills.size());
    for (const BeamTables& tables : batch.beam_tables) ReorderBeams(tables, batch);
    result_.reordered_searches += static_cast<int64_t>(batch.beam_tables.size());
    for (int s = 0; s < batch.num_sequences(); ++s) WriteSequence(batch, s, written);
    for (const auto& group : scheduler_.groups()) CheckGroup(*group);
    Step launched = {Flight(step.logits_ranges()),
                     RandomTokens(static_cast<int32_t>(batch.logits_rows.size()) * (1 + kMaxDraws)),
                     batch.logits_rows.size(),
                     {}};
    AdvanceBeams(earlier, launched);
    return launched;
  }

  // What the device's AdvanceBeams does, with fake choices.
  void AdvanceBeams(const std::optional<Step>& earlier, Step& step) {
    std::vector<BeamSearch> searches;
    for (size_t i = 0; i < step.flight.ranges.size(); ++i) {
      const LogitsRange& range = step.flight.ranges[i];
      if (!AppendSearch(range, searches)) continue;
      step.flight.searches[i] = static_cast<int32_t>(searches.size()) - 1;
      const BeamSearch& search = searches.back();
      int32_t num_live = search.num_rows;
      if (!range.group->assumed.empty()) {
        const auto first = earlier->words.begin() + search.score_word;
        num_live = static_cast<int32_t>(std::count(first, first + search.num_rows, 1));
      }
      const auto draws = std::span<const int32_t>(step.words)
                             .subspan(range.begin * size_t{1 + kMaxDraws} + 1, kMaxDraws);
      const auto chosen = ChooseFakeBeams(draws, num_live, search.width);
      const auto word = static_cast<int32_t>(step.words.size());
      const int32_t width = search.width;
      step.searches.push_back({word, word + width, word + 2 * width});
      step.words.resize(step.words.size() + 3 * static_cast<size_t>(width));
      for (int32_t beam = 0; beam < width; ++beam) {
        const bool found = beam < static_cast<int32_t>(chosen.size());
        step.words[word + beam] = found ? chosen[beam].parent : std::min(beam, search.num_rows - 1);
        step.words[word + width + beam] = found ? chosen[beam].token : 0;
        step.words[word + 2 * width + beam] = found ? 1 : 0;
      }
    }
  }

  // What the device's ReorderBeams does.
  void ReorderBeams(const BeamTables& group, StepBatch& batch) {
    const auto entry = [&](int32_t row, int32_t column) -> int32_t& {
      return batch
          .block_tables[static_cast<size_t>(group.first_row + row) * batch.max_blocks + column];
    };
    const StepBatch before = batch;
    const auto old_entry = [&](int32_t row, int32_t column) {
      return before
          .block_tables[static_cast<size_t>(group.first_row + row) * batch.max_blocks + column];
    };
    const int32_t* parents = batch.fill_words + group.parent_word;
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
    if (group.parents_unknown) return;  // checked once they are known
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

  void Land(Step& step, Flight* next) {
    std::vector<RowResult> results;
    std::vector<RowResult> live;
    for (size_t row = 0; row < step.num_rows; ++row) {
      const std::span words = std::span<const int32_t>(step.words).subspan(row * (1 + kMaxDraws));
      results.push_back({.ids = words.first(1),
                         .values = {&kScore, 1},
                         .raw_values = {&kScore, 1},
                         .sampled_ids = words.subspan(1, kMaxDraws)});
    }
    for (size_t i = 0; i < step.flight.ranges.size(); ++i) {
      Group& group = *step.flight.ranges[i].group;
      if (group.done) continue;
      const auto of_group = LiveResults(step.flight, i, results, live);
      if (of_group.size() != group.decoder->Requests().size()) {
        Error("logits rows and requests differ");
      }
      const auto continuations = group.decoder->Advance(of_group);
      if (const int32_t search = step.flight.searches[i]; search >= 0) {
        const std::span<const int32_t> words(step.words);
        const auto width = static_cast<size_t>(group.decoder->max_rows());
        if (!ChoseTheSame(step.flight, i, continuations,
                          words.subspan(step.searches[search].parents, width),
                          words.subspan(step.searches[search].tokens, width))) {
          Error("the device and the decoder chose other beams");
        }
      }
      if (group.decoder->finished()) {
        group.done = true;
        ++result_.finished;
        result_.cached_tokens += group.cached_tokens;
      } else {
        Continue(group, continuations, next, scheduler_);
      }
    }
  }

  SimulationOptions options_;
  std::mt19937_64 random_;
  PlannerLimits limits_;
  int32_t num_blocks_;
  Scheduler scheduler_;
  std::optional<Step> last_;      // computed and not read
  std::vector<uint64_t> memory_;  // [num_blocks * block_size]
  Clock::time_point now_;
  int32_t submitted_ = 0;
  SimulationResult result_;
};

}  // namespace

SimulationResult Simulate(const SimulationOptions& options) { return Simulator(options).Run(); }

}  // namespace beamline
