// Packs columns to send them to other ranks, and unpacks received columns. Bound by memory. A step
// calls each once, for its hidden states after the embedding.
#include "kernels/cuda/communication/columns.h"

#include <algorithm>

namespace beamline::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kMostBlocks = 1024;

int64_t BlocksFor(int64_t num_units) {
  return std::clamp<int64_t>(CeilDiv(num_units, int64_t{kThreads}), 1, kMostBlocks);
}

// Grid-stride loop over the units of the packed rows.
template <typename Unit>
__global__ void PackKernel(const Unit* from, int64_t from_stride, int64_t width, Unit* packed,
                           int64_t packed_width, int64_t num_rows) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x; i < num_rows * packed_width;
       i += step) {
    const int64_t row = i / packed_width, column = i % packed_width;
    packed[i] = column < width ? from[row * from_stride + column] : Unit{};
  }
}

// Grid-stride loop over the units of the whole.
template <typename Unit>
__global__ void UnpackKernel(const Unit* packed, Columns columns, Unit* to, int64_t to_stride) {
  const int64_t step = int64_t{gridDim.x} * kThreads;
  const int64_t most = columns.MostWidth();
  for (int64_t i = int64_t{blockIdx.x} * kThreads + threadIdx.x;
       i < columns.num_rows * columns.width; i += step) {
    const int64_t row = i / columns.width, column = i % columns.width;
    // The last rank whose columns begin at or before this column.
    const int64_t rank = ((column + 1) * columns.num_ranks - 1) / columns.width;
    to[row * to_stride + column] =
        packed[(rank * columns.num_rows + row) * most + column - columns.Begin(rank)];
  }
}

// Calls `call` with the widest unit type whose size divides `bytes` (from AllBits), and with the
// number of elements in a unit.
template <typename Call>
void WithUnit(size_t bytes, size_t element, const Call& call) {
  if (bytes % 16 == 0) return call(uint4{}, 16 / element);
  if (bytes % 8 == 0) return call(uint2{}, 8 / element);
  if (bytes % 4 == 0) return call(uint32_t{}, 4 / element);
  if (bytes % 2 == 0) return call(uint16_t{}, 2 / element);
  call(uint8_t{}, 1);
}

// Bitwise or of all values. A power of two divides the result if it divides all values.
template <typename... Bytes>
size_t AllBits(Bytes... bytes) {
  return (size_t{0} | ... | static_cast<size_t>(bytes));
}
size_t Address(const void* memory) { return reinterpret_cast<size_t>(memory); }

}  // namespace

void PackColumns(Device& device, const Tensor& part, const Columns& columns, void* packed) {
  const size_t element = SizeOf(part.dtype);
  const int64_t most = columns.MostWidth();
  const size_t bits = AllBits(Address(part.data), Address(packed), part.row_stride * element,
                              part.dim(-1) * element, most * element);
  WithUnit(bits, element, [&]<typename Unit>(Unit, int64_t elements) {
    PackKernel<Unit><<<static_cast<unsigned>(BlocksFor(columns.num_rows * most / elements)),
                       kThreads, 0, device.stream()>>>(
        part.as<const Unit>(), part.row_stride / elements, part.dim(-1) / elements,
        static_cast<Unit*>(packed), most / elements, columns.num_rows);
  });
  device.CheckLaunch("PackColumns");
}

void UnpackColumns(Device& device, const void* packed, const Columns& columns,
                   const Tensor& whole) {
  const size_t element = SizeOf(whole.dtype);
  // If ranks differ in their number of columns, a rank's columns begin at any element.
  const size_t begins =
      columns.are_even() ? static_cast<size_t>(columns.MostWidth()) * element : element;
  const size_t bits = AllBits(Address(packed), Address(whole.data), whole.row_stride * element,
                              columns.width * element, begins);
  WithUnit(bits, element, [&]<typename Unit>(Unit, int64_t elements) {
    const Columns units = {columns.num_rows, columns.width / elements, columns.num_ranks};
    UnpackKernel<Unit><<<static_cast<unsigned>(BlocksFor(units.num_rows * units.width)), kThreads,
                         0, device.stream()>>>(static_cast<const Unit*>(packed), units,
                                               whole.as<Unit>(), whole.row_stride / elements);
  });
  device.CheckLaunch("UnpackColumns");
}

}  // namespace beamline::cuda
