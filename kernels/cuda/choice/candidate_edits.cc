#include "kernels/cuda/choice/candidate_edits.h"

#include <algorithm>

namespace beamline::cuda {
namespace {

// Appends `entries` to `all`, sorted by id. Entries with the same id keep their order, in which
// they apply.
template <typename Entry>
void AppendSorted(const std::vector<Entry>& entries, std::vector<Entry>& all) {
  const auto begin = static_cast<std::ptrdiff_t>(all.size());
  all.insert(all.end(), entries.begin(), entries.end());
  const auto before = [](const Entry& a, const Entry& b) { return a.id < b.id; };
  if (!std::is_sorted(all.begin() + begin, all.end(), before)) {
    std::stable_sort(all.begin() + begin, all.end(), before);
  }
}

bool AsksForTheSame(const TopCandidatesParams& params, size_t row, size_t next) {
  return params.counts[row] == params.counts[next] &&
         (params.normalize_first.empty() ||
          params.normalize_first[row] == params.normalize_first[next]) &&
         (params.edits.empty() || params.edits[row] == params.edits[next]);
}

}  // namespace

FlatEdits FlattenEdits(const TopCandidatesParams& params) {
  FlatEdits flat;
  const auto vocab_size = static_cast<int32_t>(params.logits.dim(-1));
  flat.rows.reserve(params.counts.size());
  for (size_t r = 0; r < params.counts.size(); ++r) {
    if (r > 0 && AsksForTheSame(params, r - 1, r)) {  // like rows of one search
      flat.rows.push_back(CandidateRow(flat.rows.back()));
      continue;
    }
    if (r > 0) flat.all_alike = false;
    CandidateRow row;
    row.count = std::min(params.counts[r], vocab_size);
    const uint8_t mode = params.normalize_first.empty() ? kEditLogits : params.normalize_first[r];
    const bool normalize = mode != kEditLogits;
    const bool in_place = mode == kNormalizeInPlace;
    if (normalize) row.normalization = Normalization::kOfTheChosen;
    row.first_penalty = row.last_penalty = static_cast<int32_t>(flat.penalties.size());
    row.first_bias = row.last_bias = static_cast<int32_t>(flat.biases.size());
    const LogitsEdits* edits = params.edits.empty() ? nullptr : params.edits[r];
    row.edited = (edits != nullptr && !edits->empty()) || in_place;
    row.edits_in_place = row.edited && (!normalize || in_place);
    if (edits != nullptr && edits->forced_id >= 0 && edits->forced_id < vocab_size) {
      row.forced_id = edits->forced_id;
      row.normalization = Normalization::kNone;  // the scores are 0 and -infinity
      row.plain = row.count == 1 && !row.edits_in_place;
      (row.plain ? flat.any_plain : flat.any_other) = true;
      flat.rows.push_back(row);
      continue;
    }
    if (edits != nullptr && !edits->empty()) {
      row.repetition_penalty = edits->repetition_penalty;
      row.presence_penalty = edits->presence_penalty;
      row.frequency_penalty = edits->frequency_penalty;
      AppendSorted(edits->penalties, flat.penalties);
      AppendSorted(edits->biases, flat.biases);
      row.last_penalty = static_cast<int32_t>(flat.penalties.size());
      row.last_bias = static_cast<int32_t>(flat.biases.size());
    }
    const bool multiplies = row.repetition_penalty != 1.0f && row.last_penalty > row.first_penalty;
    if (in_place || (normalize && multiplies)) {
      row.normalization = Normalization::kBeforeEdits;
      flat.any_before_edits = true;
    }
    // Few biases are common: encoder-decoders ban the padding token, a minimum length bans the end
    // tokens.
    row.plain = row.count <= kMostPlainCandidates && !in_place &&
                row.first_penalty == row.last_penalty &&
                row.last_bias - row.first_bias <= kMostPlainBiases;
    (row.plain ? flat.any_plain : flat.any_other) = true;
    flat.rows.push_back(row);
  }
  return flat;
}

}  // namespace beamline::cuda
