#include "kernels/cuda/epilogues/compare.h"

#include "kernels/cuda/device/scalar.cuh"

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 1024;

template <typename T>
struct CompareArgs {
  const T *x, *reference;
  int64_t count, columns, x_stride, reference_stride;
  Closeness closeness;
  int* differs;
};

// Grid: kBlocks blocks, striding over the data. Bound by memory: both inputs are read once.
template <typename T>
__global__ void CompareKernel(CompareArgs<T> args) {
  bool close = true;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < args.count;
       i += int64_t{kThreads} * kBlocks) {
    const int64_t row = i / args.columns, column = i % args.columns;
    const float x = ToFloat(args.x[row * args.x_stride + column]);
    const float reference = ToFloat(args.reference[row * args.reference_stride + column]);
    // Also false for a NaN, and if both are infinite.
    close &=
        fabsf(x - reference) < args.closeness.absolute + args.closeness.relative * fabsf(reference);
  }
  if (!close) atomicOr(args.differs, 1);
}

}  // namespace

void Compare(Device& device, const Tensor& x, const Tensor& reference, Closeness closeness,
             int* differs) {
  BEAMLINE_CHECK(x.dtype == reference.dtype && x.dim(-1) == reference.dim(-1) &&
                 x.num_elements() == reference.num_elements());
  DispatchFloat(x.dtype, [&]<typename T>() {
    CompareKernel<T><<<kBlocks, kThreads, 0, device.stream()>>>(
        {x.as<T>(), reference.as<T>(), x.num_elements(), x.dim(-1), x.row_stride,
         reference.row_stride, closeness, differs});
  });
  device.CheckLaunch("Compare");
}

}  // namespace beamline::cuda
