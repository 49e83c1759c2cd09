#include "kernels/cuda/lt_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <vector>

#include "kernels/check.h"
#include "kernels/cuda/fill_random.h"
#include "kernels/status.h"

namespace beamline::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;
constexpr int kNumCandidates = 8;
constexpr int kNumRounds = 3;
constexpr uint32_t kAlignment = 16;

cudaDataType_t CudaType(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    default:
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t EpilogueOf(Activation activation, bool has_bias) {
  switch (activation) {
    case Activation::kRelu:
      return has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    case Activation::kGeluTanh:
      return has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    default:
      BEAMLINE_CHECK(activation == Activation::kNone);
      return has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  }
}

// Every count up to 16, then four steps to each doubling: the work of a bucket differs by a fifth.
int64_t BucketRows(int64_t num_rows) {
  if (num_rows <= 16) return num_rows;
  const int64_t step =
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(num_rows - 1))) / 4;
  return (num_rows + step - 1) / step * step;
}

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

}  // namespace

// cuBLASLt is column-major: y^T [out, rows] = W [out, in] x^T, where the row-major matrices are
// read as their own transposes.
struct LtMatMul::Call {
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weight, x, residual, y;

  explicit Call(const LtProduct& p) {
    cublasLtMatmulDescInit(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    const cublasOperation_t transpose = CUBLAS_OP_T;
    Set(CUBLASLT_MATMUL_DESC_TRANSA, transpose);
    Set(CUBLASLT_MATMUL_DESC_EPILOGUE, EpilogueOf(p.activation, p.bias != nullptr));
    if (p.bias != nullptr) {
      Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias);
      Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<int32_t>(CudaType(p.y_dtype)));
    }
    const cudaDataType_t type = CudaType(p.dtype);
    const cudaDataType_t y_type = CudaType(p.y_dtype);
    const int64_t residual_stride = p.residual == nullptr ? p.y_stride : p.residual_stride;
    cublasLtMatrixLayoutInit(&weight, type, p.in_features, p.out_features, p.weight_stride);
    cublasLtMatrixLayoutInit(&x, type, p.in_features, p.num_rows, p.x_stride);
    cublasLtMatrixLayoutInit(&residual, y_type, p.out_features, p.num_rows, residual_stride);
    cublasLtMatrixLayoutInit(&y, y_type, p.out_features, p.num_rows, p.y_stride);
  }

  template <typename Value>
  void Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value));
  }
};

absl::StatusOr<std::unique_ptr<LtMatMul>> LtMatMul::Create(Device& device) {
  std::unique_ptr<LtMatMul> lt(new LtMatMul(device));
  if (const cublasStatus_t status = cublasLtCreate(&lt->handle_); status != CUBLAS_STATUS_SUCCESS) {
    return absl::UnavailableError(
        fmt::format("cuBLASLt does not start: {}", cublasLtGetStatusString(status)));
  }
  BEAMLINE_ASSIGN_OR_RETURN(lt->workspace_,
                            device.arena().Allocate(kWorkspaceBytes, ArenaUse::kWorkspace));
  return lt;
}

LtMatMul::~LtMatMul() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
  device_.arena().Free(workspace_);
}

cublasStatus_t LtMatMul::Launch(const LtProduct& p, Call& call,
                                const cublasLtMatmulAlgo_t* algorithm) {
  const float alpha = 1.0f;
  const float beta = p.residual == nullptr ? 0.0f : 1.0f;
  const void* residual = p.residual == nullptr ? p.y : p.residual;
  return cublasLtMatmul(handle_, &call.operation, &alpha, p.weight, &call.weight, p.x, &call.x,
                        &beta, residual, &call.residual, p.y, &call.y, algorithm, workspace_,
                        kWorkspaceBytes, device_.stream());
}

bool LtMatMul::Measure(LtProduct product, cublasLtMatmulAlgo_t& fastest) {
  // Scratch operands: the caller's have fewer rows, and y may be its own residual. Random data,
  // because the chip runs faster on zeros.
  const auto elements = static_cast<size_t>(product.num_rows * product.x_stride);
  void* const x = device_.TakeScratch<char>(elements * SizeOf(product.dtype));
  product.y = device_.TakeScratch<char>(static_cast<size_t>(product.num_rows * product.y_stride) *
                                        SizeOf(product.y_dtype));
  if (!device_.ok()) return false;
  FillRandom(device_, x, product.dtype, elements);
  product.x = x;
  if (product.residual != nullptr) {
    product.residual = product.y;
    product.residual_stride = product.y_stride;
  }
  Call call(product);

  cublasLtMatmulPreferenceOpaque_t preference;
  cublasLtMatmulPreferenceInit(&preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
    cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, kAlignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, kAlignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, kAlignment);
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, kAlignment);
  cublasLtMatmulHeuristicResult_t candidates[kNumCandidates];
  int num_candidates = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, &call.operation, &call.weight, &call.x, &call.residual, &call.y, &preference,
      kNumCandidates, candidates, &num_candidates);
  if (status != CUBLAS_STATUS_SUCCESS) return false;

  // Several rounds over all candidates: clocks drift by more than the candidates differ.
  const Event begin, end;
  float best_ms = std::numeric_limits<float>::infinity();
  for (int round = 0; round <= kNumRounds; ++round) {
    for (int i = 0; i < num_candidates; ++i) {
      if (candidates[i].state != CUBLAS_STATUS_SUCCESS) continue;
      cudaEventRecord(begin.get(), device_.stream());
      candidates[i].state = Launch(product, call, &candidates[i].algo);
      cudaEventRecord(end.get(), device_.stream());
      device_.Check(cudaEventSynchronize(end.get()), "measuring cuBLASLt's algorithms");
      float ms = 0.0f;
      cudaEventElapsedTime(&ms, begin.get(), end.get());
      // The first round loads the kernels.
      if (candidates[i].state != CUBLAS_STATUS_SUCCESS || (round == 0 && num_candidates > 1))
        continue;
      if (ms < best_ms) {
        best_ms = ms;
        fastest = candidates[i].algo;
      }
    }
  }
  return best_ms < std::numeric_limits<float>::infinity();
}

const cublasLtMatmulAlgo_t* LtMatMul::Choose(const LtProduct& product) {
  const Key key = {BucketRows(product.num_rows),
                   product.out_features,
                   product.in_features,
                   product.x_stride,
                   product.weight_stride,
                   product.y_stride,
                   product.dtype,
                   product.y_dtype,
                   product.activation,
                   product.bias != nullptr,
                   product.residual != nullptr};
  const auto known = chosen_.find(key);
  if (known != chosen_.end()) return &known->second;
  LtProduct largest = product;
  largest.num_rows = key.bucket_rows;
  cublasLtMatmulAlgo_t fastest;
  if (!Measure(largest, fastest)) return nullptr;
  return &chosen_.emplace(key, fastest).first->second;
}

void LtMatMul::Run(const LtProduct& product) {
  const cublasLtMatmulAlgo_t* algorithm = Choose(product);
  if (!device_.ok()) return;
  Call call(product);
  cublasStatus_t status = Launch(product, call, algorithm);
  // An algorithm that its bucket's largest member liked may refuse a smaller one; cuBLASLt then
  // picks by itself.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) {
    status = Launch(product, call, nullptr);
  }
  if (status == CUBLAS_STATUS_SUCCESS) return;
  device_.SetError(absl::UnavailableError(fmt::format(
      "cuBLASLt: {} for a product of [{}, {}] with [{}, {}], {} to {}",
      cublasLtGetStatusString(status), product.num_rows, product.in_features, product.out_features,
      product.in_features, Name(product.dtype), Name(product.y_dtype))));
}

}  // namespace beamline::cuda
