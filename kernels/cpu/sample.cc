// Sample: temperature, top-k, top-p, min-p, typical-p (Hugging Face's order), then one random draw.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_scan.h"
#include "kernels/cpu/token_filter.h"
#include "kernels/philox.h"

namespace beamline::cpu {
namespace {

constexpr double kSampleNsPerLogit = 1.0;

// Working memory that a thread keeps between calls.
struct SampleMemory {
  std::vector<Candidate> candidates;
  std::vector<Token> tokens;
};

// Samples by the inverse of the cumulative distribution over the kept tokens, in the order of ids.
class RowSampler {
 public:
  RowSampler(size_t vocab_size, Scratch& scratch) : vocab_size_(vocab_size) {
    const size_t num_chunks = NumScanChunks(vocab_size);
    scratch.Reset(2 * Scratch::BytesFor<float>(vocab_size) +
                  3 * Scratch::BytesFor<float>(num_chunks));
    scores_ = scratch.Take<float>(vocab_size);
    masses_ = scratch.Take<float>(vocab_size);
    chunk_maxima_ = scratch.Take<float>(num_chunks);
    chunk_sums_ = scratch.Take<float>(num_chunks);
    order_ = scratch.Take<float>(num_chunks);
  }

  int32_t Draw(const float* logits, const SampleRow& row) {
    ScaleRow(logits, vocab_size_, row.temperature, scores_);
    maximum_ = ScanMaxima(scores_, vocab_size_, chunk_maxima_);
    if (maximum_ == -std::numeric_limits<float>::infinity()) return 0;  // no token is allowed
    ExpRow(scores_, vocab_size_, maximum_, masses_, chunk_sums_);
    const double uniform = UniformDraw(row.seed, row.sequence, row.position);
    const bool use_top_k = row.top_k > 0 && static_cast<size_t>(row.top_k) < vocab_size_;
    if (!use_top_k && row.top_p >= 1.0f && row.min_p <= 0.0f && row.typical_p >= 1.0f) {
      return DrawFromAll(uniform);
    }
    if (use_top_k) {
      Collect(TopKThreshold(row.top_k));
      if (row.top_p < 1.0f) KeepTopMass(tokens_, row.top_p * TotalMass(tokens_));
    } else if (row.top_p < 1.0f) {
      KeepTopP(row.top_p);
    } else {
      Collect(-std::numeric_limits<float>::max());
    }
    if (row.min_p > 0.0f) KeepMinP(tokens_, row.min_p);
    if (row.typical_p < 1.0f) KeepTypical(tokens_, maximum_, row.typical_p);
    return DrawFromTokens(uniform);
  }

 private:
  double SumOfChunks() const {
    double total = 0;
    for (size_t c = 0; c < NumScanChunks(vocab_size_); ++c) total += chunk_sums_[c];
    return total;
  }

  // The k-th highest score. All tokens with this score are kept.
  float TopKThreshold(int32_t k) {
    const float bound = std::max(BoundOfBest(vocab_size_, k, chunk_maxima_, order_),
                                 -std::numeric_limits<float>::max());
    candidates_.clear();
    CollectAtLeast(scores_, vocab_size_, chunk_maxima_, bound, candidates_);
    if (candidates_.size() <= static_cast<size_t>(k)) return bound;
    std::nth_element(candidates_.begin(), candidates_.begin() + k - 1, candidates_.end());
    return candidates_[k - 1].value;
  }

  // Collects every token with a score >= `threshold`, in the order of ids.
  void Collect(float threshold) {
    candidates_.clear();
    CollectAtLeast(scores_, vocab_size_, chunk_maxima_, threshold, candidates_);
    tokens_.clear();
    for (const Candidate& candidate : candidates_) {
      tokens_.push_back(
          {.score = candidate.value, .mass = masses_[candidate.id], .id = candidate.id});
    }
  }

  // Top-p over the whole row. Looks only as far down as the mass requires.
  void KeepTopP(float top_p) {
    const double mass = top_p * SumOfChunks();
    for (float depth : {4.0f, 8.0f, 16.0f}) {
      Collect(maximum_ - depth);
      if (TotalMass(tokens_) >= mass) return KeepTopMass(tokens_, mass);
    }
    Collect(-std::numeric_limits<float>::max());
    KeepTopMass(tokens_, mass);
  }

  // Finds the chunk by the chunks' sums, then the token within it.
  int32_t DrawFromAll(double uniform) const {
    double rest = uniform * SumOfChunks();
    size_t chosen = 0;
    bool found = false;
    for (size_t c = 0; c < NumScanChunks(vocab_size_) && !found; ++c) {
      if (chunk_sums_[c] <= 0.0f) continue;
      chosen = c;
      found = rest < chunk_sums_[c];
      if (!found) rest -= chunk_sums_[c];
    }
    if (!found)
      rest = std::numeric_limits<double>::max();  // rounding: the last token of the last chunk
    int32_t last = 0;
    const size_t end = std::min(vocab_size_, (chosen + 1) * kScanChunk);
    for (size_t id = chosen * kScanChunk; id < end; ++id) {
      if (masses_[id] <= 0.0f) continue;
      last = static_cast<int32_t>(id);
      rest -= masses_[id];
      if (rest < 0) break;
    }
    return last;
  }

  int32_t DrawFromTokens(double uniform) const {
    double rest = uniform * TotalMass(tokens_);
    int32_t last = 0;
    for (const Token& token : tokens_) {
      if (token.mass <= 0.0f) continue;
      last = token.id;
      rest -= token.mass;
      if (rest < 0) break;
    }
    return last;
  }

  static SampleMemory& ThreadMemory() {
    static thread_local SampleMemory memory;
    return memory;
  }

  size_t vocab_size_;
  float maximum_ = 0;
  float* scores_ = nullptr;
  float* masses_ = nullptr;
  float* chunk_maxima_ = nullptr;
  float* chunk_sums_ = nullptr;
  float* order_ = nullptr;
  std::vector<Candidate>& candidates_ = ThreadMemory().candidates;
  std::vector<Token>& tokens_ = ThreadMemory().tokens;
};

}  // namespace

void Compute(Context& context, const SampleParams& params) {
  const int64_t num_rows = static_cast<int64_t>(params.rows.size());
  const int64_t vocab_size = params.logits.dim(-1);
  const double cost_ns = kSampleNsPerLogit * num_rows * vocab_size;
  context.Run(num_rows, 1, cost_ns, [&](int64_t begin, int64_t end, Scratch& scratch) {
    RowSampler sampler(vocab_size, scratch);
    for (int64_t i = begin; i < end; ++i) {
      const SampleRow& row = params.rows[i];
      const float* logits = params.logits.row<float>(row.row);
      params.ids[i] = sampler.Draw(logits, row);
      params.values[i] = logits[params.ids[i]];
    }
  });
}

}  // namespace beamline::cpu
