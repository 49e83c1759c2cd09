// Converts a checkpoint's matrix to the layout and type of a CudaWeight.
#include "base/math.h"
#include "kernels/cuda/device/scalar.cuh"
#include "kernels/cuda/products/weight.h"

namespace beamline::cuda {
namespace {

constexpr int kTile = 32;
constexpr int kTileRows = 8;

// to[row][column] = from, transposed or not, through a tile in shared memory, so that both sides
// are accessed along their rows. Grid: (tiles along a stored row, tiles down). Block: kTile x
// kTileRows. Bound by memory (or by the earlier transfer from the host).
template <typename From, typename To>
__global__ void LayOutKernel(const From* from, int64_t rows, int64_t cols, bool transposed, To* to,
                             int64_t to_stride) {
  __shared__ float tile[kTile][kTile + 1];
  const int64_t row0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t col0 = static_cast<int64_t>(blockIdx.x) * kTile;
  for (int i = threadIdx.y; i < kTile; i += kTileRows) {
    const int64_t row = row0 + i, col = col0 + threadIdx.x;
    if (row < rows && col < cols) tile[i][threadIdx.x] = ToFloat(from[row * cols + col]);
  }
  __syncthreads();
  for (int i = threadIdx.y; i < kTile; i += kTileRows) {
    if (transposed) {
      const int64_t row = row0 + threadIdx.x, col = col0 + i;
      if (row < rows && col < cols) to[col * to_stride + row] = FromFloat<To>(tile[threadIdx.x][i]);
    } else {
      const int64_t row = row0 + i, col = col0 + threadIdx.x;
      if (row < rows && col < cols) to[row * to_stride + col] = FromFloat<To>(tile[i][threadIdx.x]);
    }
  }
}

}  // namespace

void LayOutPart(Device& device, const HostMatrix& part, const void* part_on_device, DType dtype,
                void* rows, int64_t row_stride) {
  if (!device.ok() || part.rows == 0 || part.cols == 0) return;
  // Tiles down a column go along y, which is at most 65,535: enough for 2,097,120 stored rows.
  const dim3 grid(static_cast<unsigned>(CeilDiv(part.cols, kTile)),
                  static_cast<unsigned>(CeilDiv(part.rows, kTile)));
  DispatchFloat(part.dtype, [&]<typename From>() {
    DispatchFloat(dtype, [&]<typename To>() {
      LayOutKernel<From, To><<<grid, dim3(kTile, kTileRows), 0, device.stream()>>>(
          static_cast<const From*>(part_on_device), part.rows, part.cols, part.transposed,
          static_cast<To*>(rows), row_stride);
    });
  });
  device.CheckLaunch("PackWeight");
}

}  // namespace beamline::cuda
