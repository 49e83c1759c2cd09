#include "kernels/cuda/epilogues/lt_measure.h"

#include <cublasLt.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

#include "kernels/cuda/epilogues/fill_random.h"
#include "kernels/cuda/epilogues/lt_call.h"
#include "kernels/cuda/epilogues/read_through.h"

namespace beamline::cuda {
namespace {

// Ragged batches reach new buckets while requests wait for them. So these try fewer candidates if
// products take long. Other shapes occur once, and few rows occur in every step.
constexpr int kNumBucketCandidates = 8;
constexpr int kNumCandidates = 16;
constexpr int64_t kFewRows = 256;
constexpr float kNever = std::numeric_limits<float>::infinity();

class Event {
 public:
  Event() { cudaEventCreate(&event_); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

// Memory that is read before each timed run. While the GPU is busy with it, the host completes the
// run's launch. Otherwise a short product would be timed by the length of its launch.
class OtherMemory {
 public:
  explicit OtherMemory(Device& device)
      : device_(device), bytes_(2 * static_cast<size_t>(device.properties().l2CacheSize)) {
    const auto memory = device.arena().Allocate(bytes_, ArenaUse::kWorkspace);
    if (memory.ok()) memory_ = *memory;
  }
  ~OtherMemory() { device_.arena().Free(memory_); }
  OtherMemory(const OtherMemory&) = delete;
  OtherMemory& operator=(const OtherMemory&) = delete;
  void Read() {
    if (memory_ != nullptr) ReadThrough(device_, memory_, bytes_);
  }

 private:
  Device& device_;
  size_t bytes_;
  void* memory_ = nullptr;  // null: there was no room for it
};

class Preference {
 public:
  Preference(int64_t alignment, DType d, bool whole_sums) {
    cublasLtMatmulPreferenceInit(&preference_);
    if (whole_sums) {
      Set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
    } else if (d != DType::kFloat32) {
      // Partial sums over k are not rounded to d's 16 bits before they are added.
      Set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
          static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    }
    Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kLtWorkspaceBytes);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      Set(attribute, static_cast<uint32_t>(alignment));
    }
  }
  cublasLtMatmulPreferenceOpaque_t* get() { return &preference_; }

 private:
  template <typename Value>
  void Set(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    cublasLtMatmulPreferenceSetAttribute(&preference_, attribute, &value, sizeof(value));
  }
  cublasLtMatmulPreferenceOpaque_t preference_;
};

}  // namespace

std::vector<AlgorithmBits> Candidates(cublasLtContext* handle, const LtProduct& product) {
  LtCall call(product);
  const int64_t alignment = KeyOf(product).fields.back();
  Preference preference(alignment, product.d.dtype, product.batch_invariant);
  cublasLtMatmulHeuristicResult_t results[kNumCandidates];
  int num_results = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, &call.operation, &call.a, &call.b, &call.c, &call.d, preference.get(),
      product.bucket_rows && product.m() > kFewRows ? kNumBucketCandidates : kNumCandidates,
      results, &num_results);
  std::vector<AlgorithmBits> candidates;
  if (status != CUBLAS_STATUS_SUCCESS) return candidates;
  for (int i = 0; i < num_results; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    candidates.push_back(std::bit_cast<AlgorithmBits>(results[i].algo));
  }
  return candidates;
}

LtProduct OnScratch(Device& device, LtProduct p) {
  // As far from an aligned address as the original, because the distance is part of the key.
  const auto take = [&](const Tensor& like) -> void* {
    const size_t offset = reinterpret_cast<uintptr_t>(like.data) % Arena::kAlignment;
    const auto size = static_cast<size_t>(like.num_rows() * like.row_stride) * SizeOf(like.dtype);
    char* const memory = device.TakeScratch<char>(offset + size);
    return memory == nullptr ? nullptr : memory + offset;
  };
  if (p.bucket_rows) {
    // Operands of the bucket's size, which the caller's may not have. Random data, because the GPU
    // runs faster on zeros.
    const int64_t rows = BucketRows(p.m());
    p.a.dims[p.a.rank - 2] = p.d.dims[0] = rows;
    if (!p.c.empty()) p.c.dims[p.c.rank - 2] = rows;
    p.a.data = take(p.a);
    p.d.data = take(p.d);
    if (!device.ok()) return p;
    FillRandom(device, p.a, 0);
    if (!p.c.empty()) {
      p.c.data = p.d.data;
      p.c.row_stride = p.d.row_stride;
    }
  } else if (p.c.data == p.d.data) {
    p.d.data = take(p.d);
  }
  return p;
}

// Each round runs every contender once, because the GPU's clock drifts by more than contenders
// differ. The first round is not counted, because it loads their kernels. Contenders are ranked by
// their mean, because at the GPU's power limit the least time is luck.
void Rank(Device& device, int num_rounds, const std::function<bool(const AlgorithmBits&)>& launch,
          std::vector<AlgorithmBits>& contenders) {
  const Event begin, end;
  OtherMemory other_memory(device);
  std::vector<std::pair<float, AlgorithmBits>> ranked;
  for (const AlgorithmBits& contender : contenders) ranked.emplace_back(0.0f, contender);
  for (int round = 0; round <= num_rounds; ++round) {
    for (auto& [total_ms, algorithm] : ranked) {
      if (total_ms == kNever) continue;
      other_memory.Read();
      cudaEventRecord(begin.get(), device.stream());
      const bool launched = launch(algorithm);
      cudaEventRecord(end.get(), device.stream());
      device.Check(cudaEventSynchronize(end.get()), "measuring cuBLASLt's algorithms");
      float ms = 0.0f;
      cudaEventElapsedTime(&ms, begin.get(), end.get());
      if (round > 0) total_ms += ms;
      if (!launched || !device.ok()) total_ms = kNever;
    }
  }
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  contenders.clear();
  for (const auto& [total_ms, algorithm] : ranked) {
    if (total_ms != kNever) contenders.push_back(algorithm);
  }
}

}  // namespace beamline::cuda
