// Edits on the device: entries sorted by id, applied to a chunk of the vocabulary or to one token.
#pragma once

#include "kernels/cuda/choice/candidate_edits.h"

namespace beamline::cuda {

// The first entry of [first, last), sorted by id, whose id is at least `id`.
template <typename Entry>
__device__ int LowerBound(const Entry* entries, int first, int last, int id) {
  while (first < last) {
    const int middle = (first + last) / 2;
    if (entries[middle].id < id) {
      first = middle + 1;
    } else {
      last = middle;
    }
  }
  return first;
}

// scores[id - begin] = edit(entry, scores[id - begin]) for every entry whose id is in [begin, end).
// One thread of the block applies all entries of an id, in order.
template <typename Entry, typename Edit>
__device__ void EditChunk(const Entry* entries, int first, int last, int begin, int end,
                          float* scores, Edit edit) {
  first = LowerBound(entries, first, last, begin);
  last = LowerBound(entries, first, last, end);
  for (int i = first + threadIdx.x; i < last; i += blockDim.x) {
    const int id = entries[i].id;
    if (i > first && entries[i - 1].id == id) continue;
    float score = scores[id - begin];
    for (int j = i; j < last && entries[j].id == id; ++j) score = edit(entries[j], score);
    scores[id - begin] = score;
  }
}

// `score` after all entries of one id, in order.
template <typename Entry, typename Edit>
__device__ float EditOne(const Entry* entries, int first, int last, int id, float score,
                         Edit edit) {
  for (int i = LowerBound(entries, first, last, id); i < last && entries[i].id == id; ++i) {
    score = edit(entries[i], score);
  }
  return score;
}

// The arithmetic of the logits processors of Hugging Face transformers.
struct Penalize {
  const CandidateRow& row;
  __device__ float operator()(const LogitsEdits::Penalty& penalty, float score) const {
    if (row.repetition_penalty != 1.0f) {
      score = score < 0 ? score * row.repetition_penalty : score / row.repetition_penalty;
    }
    if (penalty.output_count > 0) {
      score -= row.presence_penalty;
      score -= __fmul_rn(row.frequency_penalty, static_cast<float>(penalty.output_count));
    }
    return score;
  }
};
struct AddBias {
  __device__ float operator()(const LogitsEdits::Bias& bias, float score) const {
    return score + bias.value;
  }
};

}  // namespace beamline::cuda
