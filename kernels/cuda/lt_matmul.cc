#include "kernels/cuda/lt_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/cuda/backward_epilogue.h"
#include "kernels/cuda/fill_random.h"
#include "kernels/cuda/lt_call.h"
#include "kernels/status.h"

namespace beamline::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
// A ragged batch meets a new bucket now and then while it serves; other shapes are met once.
constexpr int kNumBucketCandidates = 8;
constexpr int kNumCandidates = 16;
constexpr int kNumRounds = 3;

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

constexpr float kNever = std::numeric_limits<float>::infinity();
constexpr AlgorithmBits kSplit = {};

LtProduct WithoutEpilogue(LtProduct product) {
  product.epilogue = LtEpilogue::kNone;
  product.bias = product.aux = Tensor();
  return product;
}

const cublasLtMatmulAlgo_t* AsAlgorithm(const AlgorithmBits* bits) {
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmBits));
  return reinterpret_cast<const cublasLtMatmulAlgo_t*>(bits);
}

std::string Describe(const LtProduct& p) {
  return fmt::format("a product of {} and {} to {}, epilogue {}", p.a.DebugString(),
                     p.b.DebugString(), p.d.DebugString(), Name(p.epilogue));
}

class Preference {
 public:
  explicit Preference(int64_t alignment) {
    cublasLtMatmulPreferenceInit(&preference_);
    Set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
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

absl::StatusOr<std::unique_ptr<LtMatMul>> LtMatMul::Create(Device& device,
                                                           std::string algorithm_file) {
  std::unique_ptr<LtMatMul> lt(new LtMatMul(
      device,
      AlgorithmFile(std::move(algorithm_file), device.properties().name, cublasLtGetVersion())));
  if (const cublasStatus_t status = cublasLtCreate(&lt->handle_); status != CUBLAS_STATUS_SUCCESS) {
    return absl::UnavailableError(
        fmt::format("cuBLASLt does not start: {}", cublasLtGetStatusString(status)));
  }
  lt->lanes_[0].stream = device.stream();
  BEAMLINE_ASSIGN_OR_RETURN(lt->lanes_[0].workspace,
                            device.arena().Allocate(kWorkspaceBytes, ArenaUse::kWorkspace));
  lt->Report(lt->file_.Load());
  return lt;
}

LtMatMul::~LtMatMul() {
  device_.Use();
  for (Lane& lane : lanes_) {
    if (lane.stream != nullptr) cudaStreamSynchronize(lane.stream);
    if (lane.stream != nullptr && lane.stream != device_.stream()) cudaStreamDestroy(lane.stream);
    if (lane.done != nullptr) cudaEventDestroy(lane.done);
    device_.arena().Free(lane.workspace);
  }
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

// The file is a help, never a need.
void LtMatMul::Report(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "cuBLASLt algorithms: {}\n", std::string(status.message()));
}

int LtMatMul::Launch(const LtProduct& p, LtCall& call, const AlgorithmBits* algorithm,
                     const Lane& lane) {
  const float beta = p.c.empty() ? 0.0f : 1.0f;
  // Not read when beta is 0. An 8-bit d cannot stand in for it.
  const void* c = !p.c.empty() ? p.c.data : p.d.dtype == DType::kFloat8E4M3 ? nullptr : p.d.data;
  return cublasLtMatmul(handle_, &call.operation, &p.alpha, p.b.data, &call.a, p.a.data, &call.b,
                        &beta, c, &call.c, p.d.data, &call.d, AsAlgorithm(algorithm),
                        lane.workspace, kWorkspaceBytes, lane.stream);
}

LtProduct LtMatMul::OnScratch(LtProduct p) {
  const auto take = [&](const Tensor& like) {
    const auto rows = like.num_rows();
    return device_.TakeScratch<char>(static_cast<size_t>(rows * like.row_stride) *
                                     SizeOf(like.dtype));
  };
  if (p.bucket_rows) {
    // The caller's operands have fewer rows. Random data, because the chip runs faster on zeros.
    const int64_t rows = BucketRows(p.m());
    p.a.dims[0] = p.d.dims[0] = rows;
    if (!p.c.empty()) p.c.dims[0] = rows;
    p.a.data = take(p.a);
    p.d.data = take(p.d);
    if (!device_.ok()) return p;
    FillRandom(device_, p.a.data, p.a.dtype, static_cast<size_t>(rows * p.a.row_stride));
    if (!p.c.empty()) {
      p.c.data = p.d.data;
      p.c.row_stride = p.d.row_stride;
    }
  } else if (p.c.data == p.d.data) {
    p.d.data = take(p.d);
  }
  return p;
}

float LtMatMul::Measure(const LtProduct& original, AlgorithmBits& fastest) {
  const LtProduct product = OnScratch(original);
  if (!device_.ok()) return kNever;
  LtCall call(product);
  const AlgorithmKey key = KeyOf(original);
  Preference preference(key.fields.back());
  cublasLtMatmulHeuristicResult_t candidates[kNumCandidates];
  int num_candidates = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, &call.operation, &call.a, &call.b, &call.c, &call.d, preference.get(),
      product.bucket_rows ? kNumBucketCandidates : kNumCandidates, candidates, &num_candidates);
  if (status != CUBLAS_STATUS_SUCCESS) return kNever;

  // Several rounds over all candidates: clocks drift by more than the candidates differ.
  const Event begin, end;
  std::array<float, kNumCandidates> total_ms = {};
  for (int round = 0; round <= kNumRounds; ++round) {
    for (int i = 0; i < num_candidates; ++i) {
      if (candidates[i].state != CUBLAS_STATUS_SUCCESS) continue;
      const auto algorithm = std::bit_cast<AlgorithmBits>(candidates[i].algo);
      cudaEventRecord(begin.get(), device_.stream());
      candidates[i].state =
          static_cast<cublasStatus_t>(Launch(product, call, &algorithm, lanes_[0]));
      cudaEventRecord(end.get(), device_.stream());
      device_.Check(cudaEventSynchronize(end.get()), "measuring cuBLASLt's algorithms");
      float ms = 0.0f;
      cudaEventElapsedTime(&ms, begin.get(), end.get());
      // The first round loads the kernels.
      if (candidates[i].state != CUBLAS_STATUS_SUCCESS || (round == 0 && num_candidates > 1))
        continue;
      total_ms[i] += ms;
    }
  }
  float best_ms = kNever;
  for (int i = 0; i < num_candidates; ++i) {
    if (candidates[i].state != CUBLAS_STATUS_SUCCESS || total_ms[i] >= best_ms) continue;
    best_ms = total_ms[i];
    fastest = std::bit_cast<AlgorithmBits>(candidates[i].algo);
  }
  return best_ms / kNumRounds;
}

float LtMatMul::MeasureSplit(const LtProduct& original) {
  LtProduct product = OnScratch(original);
  if (!device_.ok() || Choose(WithoutEpilogue(original)) == nullptr) return kNever;
  const Event begin, end;
  float total_ms = 0.0f;
  for (int round = 0; round <= kNumRounds; ++round) {
    cudaEventRecord(begin.get(), device_.stream());
    if (!RunSplit(lanes_[0], product).ok()) return kNever;
    cudaEventRecord(end.get(), device_.stream());
    device_.Check(cudaEventSynchronize(end.get()), "measuring a product and its epilogue");
    float ms = 0.0f;
    cudaEventElapsedTime(&ms, begin.get(), end.get());
    if (round > 0) total_ms += ms;
  }
  return total_ms / kNumRounds;
}

absl::Status LtMatMul::RunSplit(const Lane& lane, const LtProduct& product) {
  BEAMLINE_RETURN_IF_ERROR(RunOn(lane, WithoutEpilogue(product)));
  BackwardEpilogue(device_, product, lane.stream);
  return device_.status();
}

bool LtMatMul::Accepts(const LtProduct& product, const AlgorithmBits& algorithm) {
  if (algorithm == kSplit) return HasBackwardEpilogue(product);
  LtCall call(product);
  cublasLtMatmulHeuristicResult_t result;
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle_, &call.operation, &call.a, &call.b, &call.c, &call.d,
                              AsAlgorithm(&algorithm), &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kWorkspaceBytes;
}

const AlgorithmBits* LtMatMul::Choose(const LtProduct& product) {
  const AlgorithmKey key = KeyOf(product);
  if (const auto known = chosen_.find(key); known != chosen_.end()) return &known->second;
  if (const AlgorithmBits* saved = file_.Find(key); saved != nullptr && Accepts(product, *saved)) {
    ++num_recalled_;
    return &chosen_.emplace(key, *saved).first->second;
  }
  AlgorithmBits fastest;
  const float fused_ms = Measure(product, fastest);
  const float split_ms = HasBackwardEpilogue(product) ? MeasureSplit(product) : kNever;
  if (std::min(fused_ms, split_ms) == kNever) return nullptr;
  if (split_ms < fused_ms) fastest = kSplit;
  ++num_measured_;
  Report(file_.Add(key, fastest));
  return &chosen_.emplace(key, fastest).first->second;
}

absl::Status LtMatMul::RunOn(const Lane& lane, const LtProduct& product) {
  const AlgorithmBits* algorithm = Choose(product);
  if (!device_.ok()) return device_.status();
  if (algorithm != nullptr && *algorithm == kSplit) return RunSplit(lane, product);
  LtCall call(product);
  int status = Launch(product, call, algorithm, lane);
  // An algorithm that its bucket's largest member liked may refuse a smaller one; cuBLASLt then
  // picks by itself.
  const bool refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (refused && algorithm != nullptr) status = Launch(product, call, nullptr, lane);
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  const std::string message =
      fmt::format("cuBLASLt: {} for {}",
                  cublasLtGetStatusString(static_cast<cublasStatus_t>(status)), Describe(product));
  if (refused) return absl::UnimplementedError(message);
  device_.SetError(absl::UnavailableError(message));
  return device_.status();
}

absl::Status LtMatMul::Run(const LtProduct& product) {
  if (!device_.ok()) return device_.status();
  BEAMLINE_RETURN_IF_ERROR(Validate(product));
  return RunOn(lanes_[0], product);
}

absl::Status LtMatMul::MakeLanes() {
  if (lanes_.back().workspace != nullptr) return absl::OkStatus();
  for (Lane& lane : lanes_) {
    if (lane.done == nullptr) {
      device_.Check(cudaEventCreateWithFlags(&lane.done, cudaEventDisableTiming),
                    "cudaEventCreate");
    }
    if (lane.stream == nullptr) {
      device_.Check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking),
                    "cudaStreamCreate");
    }
    if (!device_.ok()) return device_.status();
    if (lane.workspace != nullptr) continue;
    BEAMLINE_ASSIGN_OR_RETURN(lane.workspace,
                              device_.arena().Allocate(kWorkspaceBytes, ArenaUse::kWorkspace));
  }
  return absl::OkStatus();
}

absl::Status LtMatMul::RunGroup(std::span<const LtProduct> products) {
  if (!device_.ok()) return device_.status();
  for (size_t i = 0; i < products.size(); ++i) {
    if (const absl::Status status = Validate(products[i]); !status.ok()) {
      return absl::Status(status.code(),
                          fmt::format("product {}: {}", i, std::string(status.message())));
    }
  }
  BEAMLINE_RETURN_IF_ERROR(MakeLanes());
  // Measuring wants the GPU for itself: all of it before the lanes part.
  for (const LtProduct& product : products) Choose(product);
  if (!device_.ok()) return device_.status();

  // The longest first, each to the lane with the least work so far.
  const auto work = [&](size_t i) {
    const LtProduct& p = products[i];
    return static_cast<double>(p.m() * p.n()) * static_cast<double>(p.k() * p.batch());
  };
  std::vector<size_t> order(products.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t i, size_t j) { return work(i) > work(j); });
  device_.Check(cudaEventRecord(lanes_[0].done, device_.stream()), "RunGroup");
  for (int i = 1; i < kNumLanes; ++i) {
    device_.Check(cudaStreamWaitEvent(lanes_[i].stream, lanes_[0].done), "RunGroup");
  }
  std::array<double, kNumLanes> load = {};
  absl::Status status;
  for (const size_t i : order) {
    const size_t lane = std::min_element(load.begin(), load.end()) - load.begin();
    load[lane] += work(i);
    status.Update(RunOn(lanes_[lane], products[i]));
  }
  for (int i = 1; i < kNumLanes; ++i) {
    device_.Check(cudaEventRecord(lanes_[i].done, lanes_[i].stream), "RunGroup");
    device_.Check(cudaStreamWaitEvent(device_.stream(), lanes_[i].done), "RunGroup");
  }
  status.Update(device_.status());
  return status;
}

}  // namespace beamline::cuda
