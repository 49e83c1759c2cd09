#include "kernels/cuda/epilogues/lt_call.h"

#include "base/check.h"

namespace beamline::cuda {
namespace {

cudaDataType_t CudaType(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return CUDA_R_16F;
    case DType::kBFloat16:
      return CUDA_R_16BF;
    case DType::kFloat8E4M3:
      return CUDA_R_8F_E4M3;
    default:
      BEAMLINE_CHECK(dtype == DType::kFloat32);
      return CUDA_R_32F;
  }
}

cublasLtEpilogue_t CublasEpilogue(LtEpilogue epilogue) {
  constexpr cublasLtEpilogue_t kEpilogues[kNumLtEpilogues] = {
      CUBLASLT_EPILOGUE_DEFAULT,  CUBLASLT_EPILOGUE_BIAS,
      CUBLASLT_EPILOGUE_RELU,     CUBLASLT_EPILOGUE_RELU_BIAS,
      CUBLASLT_EPILOGUE_GELU,     CUBLASLT_EPILOGUE_GELU_BIAS,
      CUBLASLT_EPILOGUE_RELU_AUX, CUBLASLT_EPILOGUE_RELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_GELU_AUX, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
      CUBLASLT_EPILOGUE_DRELU,    CUBLASLT_EPILOGUE_DRELU_BGRAD,
      CUBLASLT_EPILOGUE_DGELU,    CUBLASLT_EPILOGUE_DGELU_BGRAD,
      CUBLASLT_EPILOGUE_BGRADB,  // cuBLASLt's B is our a
      CUBLASLT_EPILOGUE_BGRADA};
  return kEpilogues[static_cast<int>(epilogue)];
}

template <typename Value>
void Set(cublasLtMatmulDescOpaque_t& operation, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  BEAMLINE_CHECK(cublasLtMatmulDescSetAttribute(&operation, attribute, &value, sizeof(value)) ==
                 CUBLAS_STATUS_SUCCESS);
}

// `tensor` [rows, cols] as cuBLASLt's [cols, rows].
void Describe(const Tensor& tensor, int64_t batch, cublasLtMatrixLayoutOpaque_t& layout) {
  cublasLtMatrixLayoutInit(&layout, CudaType(tensor.dtype), static_cast<uint64_t>(tensor.dim(-1)),
                           static_cast<uint64_t>(tensor.dim(-2)), tensor.row_stride);
  if (batch == 1) return;
  const auto count = static_cast<int32_t>(batch);
  const int64_t stride = tensor.rank == 3 ? tensor.dim(1) * tensor.row_stride : 0;
  cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                   sizeof(count));
  cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride,
                                   sizeof(stride));
}

const cublasLtMatmulAlgo_t* AsAlgorithm(const AlgorithmBits* bits) {
  static_assert(sizeof(cublasLtMatmulAlgo_t) == sizeof(AlgorithmBits));
  return reinterpret_cast<const cublasLtMatmulAlgo_t*>(bits);
}

}  // namespace

LtCall::LtCall(const LtProduct& p) {
  cublasLtMatmulDescInit(&operation, p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                         CUDA_R_32F);
  if (p.transpose_b) Set(operation, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  if (p.transpose_a) Set(operation, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_T);
  Set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CublasEpilogue(p.epilogue));
  if (!p.bias.empty()) {
    Set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.bias.data);
    Set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
        static_cast<int32_t>(CudaType(p.bias.dtype)));
    if (p.bias.rank == 2) Set(operation, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, p.bias.row_stride);
  }
  if (!p.aux.empty()) {
    // The mask's strides count bits.
    const int64_t unit = UsesReluMask(p.epilogue) ? 8 : 1;
    Set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, p.aux.data);
    Set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.aux.row_stride * unit);
    if (p.aux.rank == 3) {
      Set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE,
          p.aux.dim(1) * p.aux.row_stride * unit);
    }
  }
  if (p.b_scale != nullptr) Set(operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.b_scale);
  if (p.a_scale != nullptr) Set(operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.a_scale);
  if (p.d_scale != nullptr) Set(operation, CUBLASLT_MATMUL_DESC_D_SCALE_POINTER, p.d_scale);
  Describe(p.b, p.batch(), a);
  Describe(p.a, p.batch(), b);
  Describe(p.d, p.batch(), d);
  Tensor like_c = p.c.empty() ? p.d : p.c;
  if (like_c.dtype == DType::kFloat8E4M3) like_c.dtype = DType::kBFloat16;
  Describe(like_c, p.batch(), c);
}

cublasStatus_t LtCall::Launch(cublasLtHandle_t handle, const LtProduct& p,
                              const AlgorithmBits* algorithm, void* workspace,
                              cudaStream_t stream) {
  const float beta = p.c.empty() ? 0.0f : 1.0f;
  // Not read if beta is 0. An 8-bit d cannot be passed instead.
  const void* add = !p.c.empty() ? p.c.data : p.d.dtype == DType::kFloat8E4M3 ? nullptr : p.d.data;
  return cublasLtMatmul(handle, &operation, &p.alpha, p.b.data, &a, p.a.data, &b, &beta, add, &c,
                        p.d.data, &d, AsAlgorithm(algorithm), workspace, kLtWorkspaceBytes, stream);
}

bool LtCall::Accepts(cublasLtHandle_t handle, const AlgorithmBits& algorithm) {
  cublasLtMatmulHeuristicResult_t result;
  const cublasStatus_t status =
      cublasLtMatmulAlgoCheck(handle, &operation, &a, &b, &c, &d, AsAlgorithm(&algorithm), &result);
  return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= kLtWorkspaceBytes;
}

}  // namespace beamline::cuda
