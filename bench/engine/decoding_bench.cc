// Measures the host time per step of one group, without the model's forward pass.
#include <benchmark/benchmark.h>

#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "engine/decoding/group_decoder.h"
#include "tests/engine/decoding/toy_tokenizer.h"

namespace beamline {
namespace {

constexpr int32_t kVocabSize = 8000;
constexpr int32_t kMaxNewTokens = 512;

// Results of a backend that returns candidates of a few different, fixed distributions.
class FixedRows {
 public:
  explicit FixedRows(int32_t max_candidates) {
    std::mt19937 random(7);
    for (int32_t row = 0; row < kNumRows; ++row) {
      float value = -0.5f;
      for (int32_t i = 0; i < max_candidates; ++i) {
        ids_[row].push_back(static_cast<int32_t>(random() % (kVocabSize - 1)) + 1);
        values_[row].push_back(value -= 0.01f * static_cast<float>(random() % 100));
      }
    }
  }

  void Fill(std::span<const RowRequest> requests, size_t step, std::vector<RowResult>& results) {
    results.resize(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const size_t row = (step * 7 + i) % kNumRows;
      const auto count = static_cast<size_t>(requests[i].num_candidates);
      results[i].ids = std::span(ids_[row]).first(count);
      results[i].values = results[i].raw_values = std::span(values_[row]).first(count);
      results[i].sampled_ids = std::span(ids_[row]).first(requests[i].samples.size());
      results[i].sampled_values = std::span(values_[row]).first(requests[i].samples.size());
    }
  }

 private:
  static constexpr int32_t kNumRows = 97;
  std::vector<int32_t> ids_[kNumRows];
  std::vector<float> values_[kNumRows];
};

ToyTokenizer WordTokenizer() {
  std::vector<std::string> pieces(kVocabSize);
  for (int32_t id = 1; id < kVocabSize; ++id) pieces[id] = " w" + std::to_string(id);
  return ToyTokenizer(std::move(pieces), {0});
}

// Runs whole groups of kMaxNewTokens steps; one item is one step.
void RunSteps(benchmark::State& state, const ResolvedDecoding& decoding, bool streams) {
  const ToyTokenizer tokenizer = WordTokenizer();
  FixedRows rows(256);
  std::vector<RowResult> results;
  size_t step = 0;
  for (auto _ : state) {
    const auto decoder = GroupDecoder::Create(decoding, {1}, tokenizer, streams);
    while (!decoder->finished()) {
      rows.Fill(decoder->Requests(), step++, results);
      benchmark::DoNotOptimize(decoder->Advance(results));
      if (streams) benchmark::DoNotOptimize(decoder->TakeDeltas());
    }
  }
  state.SetItemsProcessed(static_cast<int64_t>(step));
  state.counters["per_step"] = benchmark::Counter(
      static_cast<double>(step), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

ResolvedDecoding Base(DecodingKind kind) {
  ResolvedDecoding decoding;
  decoding.kind = kind;
  decoding.vocab_size = kVocabSize;
  decoding.max_new_tokens = kMaxNewTokens;
  decoding.eos_token_ids = decoding.all_eos_token_ids = {0};
  decoding.bad_words = {{kVocabSize - 1}};
  return decoding;
}

void Greedy(benchmark::State& state) {
  RunSteps(state, Base(DecodingKind::kGreedy), state.range(0) != 0);
}
BENCHMARK(Greedy)->ArgName("streams")->Arg(0)->Arg(1);

void GreedyShaped(benchmark::State& state) {
  ResolvedDecoding decoding = Base(DecodingKind::kGreedy);
  decoding.repetition_penalty = 1.2f;
  decoding.no_repeat_ngram_size = 3;
  decoding.stop = {"stop here", "\n\n"};
  RunSteps(state, decoding, false);
}
BENCHMARK(GreedyShaped);

void Sampling(benchmark::State& state) {
  ResolvedDecoding decoding = Base(DecodingKind::kSampling);
  decoding.num_sequences = static_cast<int32_t>(state.range(0));
  RunSteps(state, decoding, false);
}
BENCHMARK(Sampling)->ArgName("sequences")->Arg(1)->Arg(8);

void Beam(benchmark::State& state) {
  ResolvedDecoding decoding = Base(DecodingKind::kBeam);
  decoding.beam_width = static_cast<int32_t>(state.range(0));
  RunSteps(state, decoding, state.range(1) != 0);
}
BENCHMARK(Beam)->ArgNames({"width", "streams"})->Args({4, 0})->Args({4, 1})->Args({64, 0});

void BeamShaped(benchmark::State& state) {
  ResolvedDecoding decoding = Base(DecodingKind::kBeam);
  decoding.beam_width = 4;
  decoding.repetition_penalty = 1.2f;
  decoding.no_repeat_ngram_size = 3;
  RunSteps(state, decoding, false);
}
BENCHMARK(BeamShaped);

}  // namespace
}  // namespace beamline
