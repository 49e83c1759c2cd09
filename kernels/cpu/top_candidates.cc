// TopCandidates: log-sum-exp, edits and the best tokens of each row.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/logits_edits.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/row_scan.h"

namespace beamline::cpu {
namespace {

constexpr double kCandidatesNsPerLogit = 0.4;

// Working memory that a thread keeps between calls.
struct CandidatesMemory {
  std::vector<Candidate> candidates;
  std::vector<SavedLogit> saved;
  // The row before normalisation, if unedited logits are needed and cannot be restored otherwise.
  std::vector<float> raw;
};

class RowSelector {
 public:
  RowSelector(const TopCandidatesParams& params, Scratch& scratch)
      : p_(params), vocab_size_(params.logits.dim(-1)) {
    const size_t num_chunks = NumScanChunks(vocab_size_);
    scratch.Reset(2 * Scratch::BytesFor<float>(num_chunks));
    chunk_maxima_ = scratch.Take<float>(num_chunks);
    order_ = scratch.Take<float>(num_chunks);
  }

  void Select(int64_t row) {
    static thread_local CandidatesMemory memory;
    float* logits = p_.logits.row<float>(row);
    const LogitsEdits* edits = p_.edits.empty() ? nullptr : p_.edits[row];
    const bool edit = edits != nullptr && !edits->empty();
    const bool normalize = !p_.normalize_first.empty() && p_.normalize_first[row] != 0;
    const size_t count = std::min<size_t>(p_.counts[row], vocab_size_);
    float maximum = ScanMaxima(logits, vocab_size_, chunk_maxima_);
    Normalizer normalizer;
    if (p_.whole_normalizers != nullptr) {
      normalizer.maximum = p_.whole_normalizers[row];
    } else if (normalize || p_.log_normalizers != nullptr) {
      normalizer = Normalize(logits, maximum);
    }
    if (p_.log_normalizers != nullptr) p_.log_normalizers[row] = normalizer.total();

    const bool forced = edit && edits->forced_id >= 0;
    if (forced && count == 1 && !p_.normalize_first.empty() &&
        p_.normalize_first[row] == kNormalizeFirst &&
        static_cast<size_t>(edits->forced_id) < vocab_size_) {
      return StoreForced(row, edits->forced_id, logits[edits->forced_id]);
    }
    const bool want_raw = p_.raw_values != nullptr;
    if (want_raw && (normalize || forced)) memory.raw.assign(logits, logits + vocab_size_);
    if (want_raw && edit) SaveEditedLogits(*edits, logits, vocab_size_, memory.saved);
    if (normalize) SubtractTwice(logits, vocab_size_, normalizer.maximum, normalizer.log_sum);
    if (edit) ApplyLogitsEdits(*edits, vocab_size_, logits);
    if (normalize || edit) ScanMaxima(logits, vocab_size_, chunk_maxima_);

    SelectBest(logits, vocab_size_, count, chunk_maxima_, order_, memory.candidates);
    float* values = p_.values + row * p_.max_count;
    int32_t* ids = p_.ids + row * p_.max_count;
    for (size_t i = 0; i < count; ++i) {
      values[i] = memory.candidates[i].value;
      ids[i] = memory.candidates[i].id;
    }
    if (want_raw) {
      const float* raw = normalize || forced ? memory.raw.data() : logits;
      StoreRaw(row, count, raw, edit && raw == logits ? &memory.saved : nullptr);
    }
  }

 private:
  // log_softmax(x) = x - maximum - log_sum.
  struct Normalizer {
    float maximum = 0;
    float log_sum = 0;
    float total() const { return maximum + log_sum; }
  };

  Normalizer Normalize(const float* logits, float maximum) const {
    // An infinite maximum is the result itself, as infinity - infinity would be NaN.
    if (std::isinf(maximum)) return {maximum, 0.0f};
    return {maximum, static_cast<float>(std::log(SumExp(logits, vocab_size_, maximum)))};
  }

  // For a row that asks only for its forced token, and whose logits are not read afterwards.
  void StoreForced(int64_t row, int32_t id, float logit) const {
    p_.values[row * p_.max_count] = 0.0f;
    p_.ids[row * p_.max_count] = id;
    if (p_.raw_values != nullptr) p_.raw_values[row * p_.max_count] = logit;
  }

  void StoreRaw(int64_t row, size_t count, const float* raw,
                const std::vector<SavedLogit>* saved) const {
    const int32_t* ids = p_.ids + row * p_.max_count;
    float* raw_values = p_.raw_values + row * p_.max_count;
    for (size_t i = 0; i < count; ++i) {
      const SavedLogit* before = saved == nullptr ? nullptr : FindSaved(*saved, ids[i]);
      raw_values[i] = before == nullptr ? raw[ids[i]] : before->value;
    }
  }

  const TopCandidatesParams& p_;
  size_t vocab_size_;
  float* chunk_maxima_ = nullptr;
  float* order_ = nullptr;
};

}  // namespace

void Compute(Context& context, const TopCandidatesParams& params) {
  const int64_t num_rows = params.logits.num_rows();
  const double cost_ns = kCandidatesNsPerLogit * params.logits.num_elements();
  context.Run(num_rows, 1, cost_ns, [&](int64_t begin, int64_t end, Scratch& scratch) {
    RowSelector selector(params, scratch);
    for (int64_t row = begin; row < end; ++row) selector.Select(row);
  });
}

}  // namespace beamline::cpu
