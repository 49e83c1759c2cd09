#include "kernels/cuda/device/tensor_map.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <array>
#include <string>

#include "fmt/format.h"

namespace beamline::cuda {
namespace {

constexpr int kElementBytes = 2;
constexpr int kBoxColumns = 64;
constexpr int kGroupRows = 8;

// The driver's function, looked up at run time: a program that links to the driver does not start
// on a machine without it.
PFN_cuTensorMapEncodeTiled_v12000 FindEncode(Device& device) {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  static constexpr unsigned int kVersion = 12000;
  device.Check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, kVersion,
                                                cudaEnableDefault, &found),
               "cudaGetDriverEntryPointByVersion");
#else  // CUDA of Debian 13, which has no later version of the function either
  device.Check(
      cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found),
      "cudaGetDriverEntryPoint");
#endif
  return reinterpret_cast<PFN_cuTensorMapEncodeTiled_v12000>(function);
}

// The map of a tensor that starts at `begin` and is copied in boxes. The innermost stride is one
// element. `what` names the tensor in an error.
template <int kDims>
CUtensorMap Encode(Device& device, uintptr_t begin, const std::array<cuuint64_t, kDims>& dims,
                   const std::array<cuuint64_t, kDims - 1>& strides,
                   const std::array<cuuint32_t, kDims>& box, const std::string& what) {
  static const PFN_cuTensorMapEncodeTiled_v12000 encode = FindEncode(device);
  CUtensorMap map = {};
  if (device.ok() && encode == nullptr) {
    device.SetError(absl::UnavailableError(
        fmt::format("GPU {}: the driver has no cuTensorMapEncodeTiled", device.index())));
  }
  if (!device.ok()) return map;
  std::array<cuuint32_t, kDims> steps;
  steps.fill(1);
  const CUresult result =
      encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, kDims, reinterpret_cast<void*>(begin),
             dims.data(), strides.data(), box.data(), steps.data(), CU_TENSOR_MAP_INTERLEAVE_NONE,
             CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
             CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) {
    device.SetError(
        absl::InternalError(fmt::format("GPU {}: cuTensorMapEncodeTiled returned {} for {}",
                                        device.index(), static_cast<int>(result), what)));
  }
  return map;
}

}  // namespace

CUtensorMap MakeRaggedMap(Device& device, const RaggedRows& rows) {
  const auto stride = static_cast<uint64_t>(rows.stride * kElementBytes);
  // The sum of a row's two coordinates is its number plus box_rows.
  const uintptr_t begin = reinterpret_cast<uintptr_t>(rows.data) -
                          static_cast<uintptr_t>(rows.box_rows) * static_cast<uintptr_t>(stride);
  return Encode<4>(
      device, begin,
      {static_cast<uint64_t>(rows.head_dim), static_cast<uint64_t>(rows.num_heads),
       static_cast<uint64_t>(rows.box_rows), static_cast<uint64_t>(rows.num_rows) + 1},
      {static_cast<uint64_t>(rows.head_dim) * kElementBytes, stride, stride},
      {kBoxColumns, static_cast<uint32_t>(rows.box_heads), static_cast<uint32_t>(rows.box_rows), 1},
      fmt::format("{} rows of {} heads of {}", rows.num_rows, rows.num_heads, rows.head_dim));
}

CUtensorMap MakeGroupedMap(Device& device, const GroupedRows& rows) {
  const auto columns = static_cast<uint64_t>(rows.num_columns);
  return Encode<4>(
      device, reinterpret_cast<uintptr_t>(rows.data),
      {kBoxColumns, kGroupRows, columns / kBoxColumns,
       static_cast<uint64_t>(rows.num_rows / kGroupRows)},
      {columns * kElementBytes, kBoxColumns * kElementBytes, kGroupRows * columns * kElementBytes},
      {kBoxColumns, kGroupRows, static_cast<uint32_t>(columns / kBoxColumns),
       static_cast<uint32_t>(rows.box_groups)},
      fmt::format("groups of {} rows of {}", rows.num_rows, rows.num_columns));
}

CUtensorMap MakeRaggedGroupMap(Device& device, const GroupedRows& rows) {
  const auto columns = static_cast<uint64_t>(rows.num_columns);
  const uint64_t stride = columns * kElementBytes;
  // The sum of a row's two coordinates is its number plus kGroupRows.
  return Encode<4>(
      device, reinterpret_cast<uintptr_t>(rows.data) - kGroupRows * stride,
      {kBoxColumns, kGroupRows, columns / kBoxColumns, static_cast<uint64_t>(rows.num_rows) + 1},
      {stride, kBoxColumns * kElementBytes, stride},
      {kBoxColumns, kGroupRows, static_cast<uint32_t>(columns / kBoxColumns), 1},
      fmt::format("single groups of {} rows of {}", rows.num_rows, rows.num_columns));
}

CUtensorMap MakeMatrixMap(Device& device, const MatrixRows& rows) {
  return Encode<2>(device, reinterpret_cast<uintptr_t>(rows.data),
                   {static_cast<uint64_t>(rows.num_columns), static_cast<uint64_t>(rows.num_rows)},
                   {static_cast<uint64_t>(rows.stride * kElementBytes)},
                   {kBoxColumns, static_cast<uint32_t>(rows.box_rows)},
                   fmt::format("{} rows of {} columns", rows.num_rows, rows.num_columns));
}

}  // namespace beamline::cuda
