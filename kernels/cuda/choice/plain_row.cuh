// Shared by the kernels of plain rows (candidate_edits.h): their few edits, a threshold that few
// values reach, and the output of a row's results.
#pragma once

#include "kernels/cuda/choice/candidate_args.cuh"
#include "kernels/cuda/choice/ordered_key.cuh"

namespace beamline::cuda {

inline constexpr uint32_t kLowest = 0x007fffff;  // OrderedKey(-infinity)

// The few biases of a row, sorted by id.
struct Biases {
  const LogitsEdits::Bias* entries;
  int count;

  __device__ float Edited(int id, float score) const {
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      if (entries[i].id == id) score += entries[i].value;
    }
    return score;
  }
};

// The count-th greatest of the lanes' numbers. At least `count` lanes reach it.
template <int kUnroll>
__device__ uint32_t ThresholdOf(uint32_t number, int count) {
  int num_greater = 0;
#pragma unroll kUnroll
  for (int i = 0; i < kWarpSize; ++i) {
    num_greater += __shfl_sync(kFullMask, number, i) > number ? 1 : 0;
  }
  return __reduce_min_sync(kFullMask, num_greater < count ? number : 0xffffffffu);
}

// Writes the edited logits of a row, after all of its warps have read it. Called by one warp.
__device__ inline void StoreEdited(const Biases& biases, int vocab_size, float* logits) {
  __syncwarp();
  for (int i = static_cast<int>(threadIdx.x) % kWarpSize; i < biases.count; i += kWarpSize) {
    const int id = biases.entries[i].id;
    const bool first = i == 0 || biases.entries[i - 1].id != id;  // of the entries of one id
    if (first && id >= 0 && id < vocab_size) logits[id] = biases.Edited(id, logits[id]);
  }
}

// Writes the results of row r. Called by one warp whose lane i has the row's i-th candidate by
// edited logit: its key, as of Normalization::kNone, and its unedited logit. normalizer: from
// WarpNormalizer, in every lane.
__device__ inline void WriteRow(const CandidateArgs& args, const CandidateRow& row, int r,
                                const Biases& biases, float2 normalizer, uint64_t key,
                                float logit) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const bool exists = lane < row.count;
  const int id = IdOf(key);
  if (lane == 0 && args.log_normalizers != nullptr) {
    args.log_normalizers[r] = normalizer.x + normalizer.y;
  }
  int place = lane;
  if (row.normalization == Normalization::kOfTheChosen) {  // rounding may have changed the order
    const float score = logit - normalizer.x - normalizer.y;
    if (exists) key = CandidateKey(biases.Edited(id, score), id);
    place = 0;
#pragma unroll 1
    for (int j = 0; j < row.count; ++j) place += __shfl_sync(kFullMask, key, j) > key ? 1 : 0;
  }
  if (row.edits_in_place)
    StoreEdited(biases, args.vocab_size, args.logits + r * args.logits_stride);
  if (!exists) return;
  const int64_t to = static_cast<int64_t>(r) * args.max_count + place;
  args.values[to] = ValueOf(key);
  args.ids[to] = id;
  if (args.raw_values != nullptr) args.raw_values[to] = logit;
}

}  // namespace beamline::cuda
