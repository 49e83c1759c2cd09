#include "tests/engine/decoding/toy_loop.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace beamline {
namespace {

struct Row {
  std::vector<int32_t> ids;
  std::vector<float> values;
  std::vector<float> raw_values;
  std::vector<int32_t> sampled_ids;
  std::vector<float> sampled_values;
  float log_normalizer = 0.0f;
};

int32_t Draw(const SampleRow& sample, std::span<const float> scores) {
  std::seed_seq seeds{static_cast<uint32_t>(sample.seed), static_cast<uint32_t>(sample.seed >> 32),
                      sample.sequence, sample.position};
  std::mt19937 random(seeds);
  const float best = *std::ranges::max_element(scores);
  std::vector<double> weights;
  for (const float score : scores) weights.push_back(std::exp((score - best) / sample.temperature));
  return std::discrete_distribution<int32_t>(weights.begin(), weights.end())(random);
}

Row ComputeRow(const RowRequest& request, const std::vector<float>& logits) {
  Row row;
  const std::vector<double> logprobs = LogSoftmax(logits);
  row.log_normalizer = static_cast<float>(logits[0] - logprobs[0]);
  std::vector<float> scores = logits;
  if (request.normalize_first) std::ranges::copy(logprobs, scores.begin());
  if (request.edits != nullptr) ApplyEdits(*request.edits, scores);
  if (request.renormalize) std::ranges::copy(LogSoftmax(scores), scores.begin());

  std::vector<int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int32_t a, int32_t b) { return scores[a] > scores[b]; });
  BEAMLINE_CHECK(request.num_candidates >= 1 &&
                 request.num_candidates <= static_cast<int32_t>(logits.size()));
  order.resize(request.num_candidates);
  for (const int32_t id : order) {
    row.ids.push_back(id);
    row.values.push_back(scores[id]);
    row.raw_values.push_back(logits[id]);
  }
  for (const SampleRow& sample : request.samples) {
    row.sampled_ids.push_back(Draw(sample, scores));
    row.sampled_values.push_back(scores[row.sampled_ids.back()]);
  }
  return row;
}

// A step's beams as the backend chooses them, and what the decoder assumed of the step behind it:
// checked against what Advance does then.
class DeviceBeams {
 public:
  DeviceBeams(GroupDecoder& decoder, std::span<const RowResult> results) {
    const auto beams = decoder.Beams();
    if (!beams.has_value()) return;
    const auto most =
        std::ranges::max_element(results, {}, [](const RowResult& row) { return row.ids.size(); });
    AdvanceBeamsParams params;
    params.max_count = static_cast<int>(most->ids.size());
    std::vector<float> values;
    std::vector<int32_t> ids, counts;
    for (const RowResult& row : results) {
      values.insert(values.end(), row.values.begin(), row.values.end());
      ids.insert(ids.end(), row.ids.begin(), row.ids.end());
      counts.push_back(static_cast<int32_t>(row.ids.size()));
      values.resize(counts.size() * params.max_count);
      ids.resize(values.size());
    }
    const BeamSearch search = {.num_rows = static_cast<int32_t>(results.size()),
                               .width = beams->width,
                               .scores = beams->scores,
                               .end_ids = beams->end_ids};
    parents_.resize(beams->width);
    tokens_.resize(beams->width);
    std::vector<float> scores(beams->width);
    params.values = values.data();
    params.ids = ids.data();
    params.counts = counts;
    params.searches = {&search, 1};
    params.parents = parents_.data();
    params.tokens = tokens_.data();
    params.scores = scores.data();
    static const std::unique_ptr<Backend> cpu = MakeCpuBackend({.num_threads = 1});
    cpu->AdvanceBeams(params);

    const auto assumed = decoder.Assume();
    BEAMLINE_CHECK(assumed.has_value() ||
                   (results.size() > 1 && results.size() < static_cast<size_t>(beams->width)));
    if (!assumed.has_value()) return;
    BEAMLINE_CHECK(assumed->empty() || assumed->size() == static_cast<size_t>(beams->width));
    for (const AssumedRow& row : *assumed) {
      BEAMLINE_CHECK(row.choice == AssumedRow::Choice::kBeam);
      edits_.push_back(row.request->edits == nullptr ? LogitsEdits() : *row.request->edits);
      num_candidates_.push_back(row.request->num_candidates);
    }
    assumed_ = true;
  }

  void ExpectSame(GroupDecoder& decoder, std::span<const Continuation> continuations) const {
    if (parents_.empty()) return;
    BEAMLINE_CHECK(!assumed_ || !edits_.empty() || continuations.empty());
    for (size_t i = 0; i < continuations.size(); ++i) {
      BEAMLINE_CHECK(continuations[i].parent == parents_[i]);
      BEAMLINE_CHECK(continuations[i].token == tokens_[i]);
      if (!assumed_) continue;
      BEAMLINE_CHECK(continuations[i].assumed == static_cast<int32_t>(i));
      const RowRequest& request = decoder.Requests()[i];
      BEAMLINE_CHECK(request.num_candidates == num_candidates_[i] && request.normalize_first);
      const LogitsEdits edits = request.edits == nullptr ? LogitsEdits() : *request.edits;
      BEAMLINE_CHECK(edits.forced_id == edits_[i].forced_id);
      BEAMLINE_CHECK(edits.penalties.empty() && edits_[i].penalties.empty());
      BEAMLINE_CHECK(std::ranges::equal(edits.biases, edits_[i].biases, [](auto& a, auto& b) {
        return a.id == b.id && a.value == b.value;
      }));
    }
  }

 private:
  std::vector<int32_t> parents_, tokens_;  // empty: the group has no such search
  bool assumed_ = false;
  std::vector<LogitsEdits> edits_;  // of each assumed row
  std::vector<int32_t> num_candidates_;
};

void JoinDeltas(GroupDecoder& decoder, ToyRun& run) {
  for (GenerateDelta& delta : decoder.TakeDeltas()) {
    GenerateDelta& joined = run.streamed[delta.sequence];
    joined.sequence = delta.sequence;
    joined.ids.insert(joined.ids.end(), delta.ids.begin(), delta.ids.end());
    joined.text += delta.text;
    joined.logprobs.insert(joined.logprobs.end(), delta.logprobs.begin(), delta.logprobs.end());
  }
  run.first_texts.push_back(run.streamed.contains(0) ? run.streamed[0].text : "");
}

}  // namespace

std::vector<double> LogSoftmax(std::span<const float> logits) {
  const double best = *std::ranges::max_element(logits);
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(logit - best);
  std::vector<double> logprobs;
  for (const float logit : logits) logprobs.push_back(logit - best - std::log(sum));
  return logprobs;
}

void ApplyEdits(const LogitsEdits& edits, std::vector<float>& scores) {
  for (const LogitsEdits::Penalty& penalty : edits.penalties) {
    float& score = scores[penalty.id];
    score = score < 0.0f ? score * edits.repetition_penalty : score / edits.repetition_penalty;
    if (penalty.output_count > 0) {
      score -= edits.presence_penalty +
               edits.frequency_penalty * static_cast<float>(penalty.output_count);
    }
  }
  for (const LogitsEdits::Bias& bias : edits.biases) scores[bias.id] += bias.value;
  if (edits.forced_id >= 0) {
    std::ranges::fill(scores, -std::numeric_limits<float>::infinity());
    scores[edits.forced_id] = 0.0f;
  }
}

ToyRun RunGroup(GroupDecoder& decoder, const ToyModel& model, TokenIds prompt,
                const ToyRunOptions& options) {
  ToyRun run;
  std::vector<TokenIds> histories = {std::move(prompt)};  // proposals included
  std::vector<size_t> num_proposals = {0};                // the last so many of each history
  while (!decoder.finished()) {
    if (run.num_steps == options.stop_after_steps) {
      decoder.Stop(FinishReason::kDeadline);
      BEAMLINE_CHECK(decoder.finished());
      JoinDeltas(decoder, run);
      break;
    }
    const std::span<const RowRequest> requests = decoder.Requests();
    run.most_rows = std::max(run.most_rows, histories.size());
    std::vector<Row> rows;
    rows.reserve(requests.size());
    for (size_t i = 0; i < histories.size(); ++i) {
      const std::span<const int32_t> history = histories[i];
      run.most_tokens = std::max(run.most_tokens, history.size());
      for (size_t seen = history.size() - num_proposals[i]; seen <= history.size(); ++seen) {
        BEAMLINE_CHECK(rows.size() < requests.size());
        rows.push_back(ComputeRow(requests[rows.size()], model(history.first(seen))));
      }
    }
    BEAMLINE_CHECK(rows.size() == requests.size());
    std::vector<RowResult> results;
    for (const Row& row : rows) {
      results.push_back({row.ids, row.values, row.raw_values, row.log_normalizer, row.sampled_ids,
                         row.sampled_values});
    }
    const DeviceBeams device_beams(decoder, results);
    const std::span<const Continuation> continuations = decoder.Advance(results);
    device_beams.ExpectSame(decoder, continuations);
    BEAMLINE_CHECK(continuations.empty() == decoder.finished());
    std::vector<TokenIds> next;
    num_proposals.clear();
    for (const Continuation& continuation : continuations) {
      TokenIds& history = next.emplace_back(histories[continuation.parent]);
      history.resize(history.size() - continuation.num_dropped);
      history.push_back(continuation.token);
      history.insert(history.end(), continuation.proposals.begin(), continuation.proposals.end());
      num_proposals.push_back(continuation.proposals.size());
    }
    histories = std::move(next);
    ++run.num_steps;
    JoinDeltas(decoder, run);
  }
  run.sequences = decoder.TakeSequences();
  return run;
}

ToyModel RandomModel(uint64_t seed, int32_t vocab_size, int32_t order, float spread) {
  return [=](std::span<const int32_t> history) {
    const size_t seen = std::min<size_t>(order, history.size());
    std::vector<uint32_t> key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
    for (const int32_t id : history.last(seen)) key.push_back(static_cast<uint32_t>(id));
    std::seed_seq seeds(key.begin(), key.end());
    std::mt19937 random(seeds);
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float> logits(vocab_size);
    for (float& logit : logits) logit = normal(random);
    return logits;
  };
}

}  // namespace beamline
