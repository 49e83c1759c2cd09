// One warp's part of attention for few query rows that share a key-value head
// (attention_grouped.cu): running softmaxes over keys that the warp reads from shared memory, 16 at
// a time.
#pragma once

#include "kernels/cuda/attention/attention_args.cuh"
#include "kernels/cuda/device/mma.cuh"

namespace beamline::cuda {

// The shape of a block: kTiles times eight query rows of up to kWidth elements. Each of kWarps
// warps has copies of its next kStages times kKeys keys in flight.
template <int kWidth_, int kTiles_, int kWarps_>
struct Shape {
  static constexpr int kWidth = kWidth_;
  static constexpr int kTiles = kTiles_;
  static constexpr int kWarps = kWarps_;
  static constexpr int kStages = 2;
  static constexpr int kKeys = 16;
  static constexpr int kRows = 8 * kTiles;
  static constexpr int kThreads = kWarps * kWarpSize;
  static constexpr int kChunks = kWidth / 8;        // of a row, 16 bytes each
  static constexpr int kTileSize = kKeys * kWidth;  // elements
  static constexpr int kStageSize = 2 * kTileSize;  // keys, then values
  // Stride of the rows of the warps' sums. The lanes of a warp write to different banks.
  static constexpr int kSumStride = kWidth + 4;
  static constexpr int kSharedBytes = 2 * (kRows * kWidth + kWarps * kStages * kStageSize);
  static_assert(kWarps * kRows * kSumStride * static_cast<int>(sizeof(float)) <= kSharedBytes);
};

// The query rows of a block: those of one sequence and one key-value head.
struct BlockRows {
  int count;
  int first_query, first_position;
  int kv_head;
  Divisor group_size;

  __device__ int Query(int row) const { return group_size.Quotient(row); }
  __device__ int64_t Token(int row) const { return int64_t{first_query} + Query(row); }
  __device__ int Head(int row) const {
    return kv_head * group_size.value() + row - Query(row) * group_size.value();
  }
  __device__ int Position(int row) const { return first_position + Query(row); }
};

__device__ inline uint32_t TransposeMatrix(uint32_t from) {
  uint32_t to;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(to) : "r"(from));
  return to;
}

// The rows' softmaxes over the keys of one warp. Query rows are the columns of both matrix
// products. The rows are keys in the products of keys and queries, and elements of a head in the
// products of values and probabilities. Of each eight columns, a lane holds 2 * (lane % 4) and the
// next.
template <typename T, typename S>
struct WarpKeys {
  using Scores = float[S::kTiles][4];
  using Tile = SwizzledTile<T, S::kWidth>;

  float output[S::kWidth / 16][S::kTiles][4] = {};
  float maximum[S::kTiles][2];  // of score * log2_factor
  float total[S::kTiles][2];    // this lane's part
  int limit[S::kTiles][2];      // keys that the row sees
  int fewest_keys;              // that any row of this lane sees

  // The row of a lane's element j of tile t, limited to the last row.
  __device__ static int RowOf(int t, int j, const BlockRows& rows) {
    return min(8 * t + static_cast<int>(threadIdx.x) % 4 * 2 + j, rows.count - 1);
  }

  __device__ WarpKeys(const BlockRows& rows, bool causal, int end) : fewest_keys(end) {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        maximum[t][j] = -INFINITY;
        total[t][j] = 0.0f;
        limit[t][j] = causal ? min(end, max(0, rows.Position(RowOf(t, j, rows)) + 1)) : end;
        fewest_keys = min(fewest_keys, limit[t][j]);
      }
    }
  }

  // Two sums for each score, so that products do not wait for each other.
  __device__ static void MultiplyKeys(Tile queries, Tile keys, Scores& scores) {
    constexpr int kSteps = 2 / S::kTiles;  // of 16 elements, whose queries are loaded together
    const int lane = threadIdx.x % kWarpSize;
    const int row = lane % 8 + (S::kTiles == 2 ? lane / 16 * 8 : 0);
    const int chunk = S::kTiles == 2 ? lane / 8 % 2 : lane / 8;
    Scores odd = {};
#pragma unroll
    for (int k = 0; k < S::kWidth / 16; k += kSteps) {
      uint32_t b[4];
      LoadMatrices(queries.Chunk(row, 2 * k + chunk), b);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        uint32_t a[4];
        LoadMatrices(keys.Chunk(lane % 16, 2 * (k + step) + lane / 16), a);
#pragma unroll
        for (int t = 0; t < S::kTiles; ++t) {
          const int at = 2 * (t + step);
          MultiplyAdd<T>(a, b[at], b[at + 1], (k + step) % 2 == 0 ? scores[t] : odd[t]);
        }
      }
    }
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[t][i] += odd[t][i];
    }
  }

  // Edits scores and masks keys, if any need it.
  __device__ void Adjust(const AttentionArgs<T>& args, const BlockRows& rows, int first_key,
                         Scores& scores) const {
    const bool edits = EditsScores(args);
    if (!edits && first_key + S::kKeys <= fewest_keys) return;
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = RowOf(t, j, rows);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const int key = first_key + 8 * i + lane / 4;
          float& score = scores[t][2 * i + j];
          if (edits) {
            score = EditedScore(args, rows.Head(row), rows.Position(row), key, score * args.scale);
          }
          if (key >= limit[t][j]) score = -INFINITY;
        }
      }
    }
  }

  // Converts scores to probabilities, relative to the running maximum.
  __device__ void Softmax(float log2_factor, Scores& scores) {
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) SoftmaxRow(t, j, log2_factor, scores);
    }
  }

  __device__ void SoftmaxRow(int t, int j, float log2_factor, Scores& scores) {
    float keys_maximum = -INFINITY;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      keys_maximum = fmaxf(keys_maximum, scores[t][2 * i + j]);
    }
#pragma unroll
    for (int offset = 4; offset < kWarpSize; offset *= 2) {
      keys_maximum = fmaxf(keys_maximum, __shfl_xor_sync(kFullMask, keys_maximum, offset));
    }
    const float new_maximum = fmaxf(maximum[t][j], keys_maximum * log2_factor);
    // While a row has seen no key, every exponential is 0.
    const float shift = new_maximum == -INFINITY ? 0.0f : new_maximum;
    const float decay = exp2f(maximum[t][j] - shift);
    maximum[t][j] = new_maximum;
    total[t][j] *= decay;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      float& score = scores[t][2 * i + j];
      score = exp2f(score * log2_factor - shift);
      total[t][j] += score;
    }
#pragma unroll
    for (int m = 0; m < S::kWidth / 16; ++m) {
      output[m][t][j] *= decay;
      output[m][t][2 + j] *= decay;
    }
  }

  __device__ void AddValues(Tile values, const Scores& probabilities) {
    const int lane = threadIdx.x % kWarpSize;
    uint32_t b[S::kTiles][2];
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
      const float(&p)[4] = probabilities[t];
      b[t][0] = TransposeMatrix(PackPair<T>(p[0], p[1]));
      b[t][1] = TransposeMatrix(PackPair<T>(p[2], p[3]));
    }
#pragma unroll
    for (int m = 0; m < S::kWidth / 16; ++m) {
      uint32_t a[4];
      LoadMatricesTransposed(values.Chunk(lane % 8 + lane / 16 * 8, 2 * m + lane / 8 % 2), a);
#pragma unroll
      for (int t = 0; t < S::kTiles; ++t) MultiplyAdd<T>(a, b[t][0], b[t][1], output[m][t]);
    }
  }

  // Writes to shared memory: sums [kRows, kSumStride], and the maximum and total of each row.
  __device__ void Store(float* sums, float2* weights) const {
    const int lane = threadIdx.x % kWarpSize;
#pragma unroll
    for (int t = 0; t < S::kTiles; ++t) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int row = 8 * t + lane % 4 * 2 + j;
        float sum = total[t][j];
#pragma unroll
        for (int offset = 4; offset < kWarpSize; offset *= 2) {
          sum += __shfl_xor_sync(kFullMask, sum, offset);
        }
        if (lane < 4) weights[row] = {maximum[t][j], sum};
        float* const to = sums + row * S::kSumStride + lane / 4;
#pragma unroll
        for (int m = 0; m < S::kWidth / 16; ++m) {
          to[16 * m] = output[m][t][j];
          to[16 * m + 8] = output[m][t][2 + j];
        }
      }
    }
  }
};

}  // namespace beamline::cuda
