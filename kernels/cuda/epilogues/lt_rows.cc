#include "kernels/cuda/epilogues/lt_rows.h"

#include <algorithm>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/epilogues/compare.h"
#include "kernels/cuda/epilogues/fill_random.h"

namespace beamline::cuda {
namespace {

constexpr int kNaNByte = 0xff;  // a NaN in every floating-point type
enum Seed : uint32_t { kSeedA = 11, kSeedC };

// Numbers of any type that are this close are equal.
constexpr Closeness kEqual = {.absolute = 1e-37f, .relative = 0.0f};

Tensor RowsOf(Tensor tensor, int64_t begin, int64_t count) {
  if (tensor.empty()) return tensor;
  const auto bytes = begin * tensor.row_stride * static_cast<int64_t>(SizeOf(tensor.dtype));
  tensor.data = static_cast<char*>(tensor.data) + bytes;
  tensor.dims[tensor.rank - 2] = count;
  return tensor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<LtRows>> LtRows::Create(Device& device, const LtProduct& like,
                                                       int64_t num_rows) {
  BEAMLINE_CHECK(like.bucket_rows && !WritesBias(like.epilogue));
  std::unique_ptr<LtRows> rows(new LtRows(device, num_rows));
  BEAMLINE_RETURN_IF_ERROR(rows->Initialize(like));
  return rows;
}

// No wait is needed: later uses of the memory come after this in the stream.
LtRows::~LtRows() {
  for (void* memory : memory_) device_.arena().Free(memory);
}

absl::Status LtRows::Place(Tensor& tensor) {
  tensor.dims[tensor.rank - 2] = num_rows_;
  // As far from an aligned address as the original, because the distance is part of the key.
  const size_t offset = reinterpret_cast<uintptr_t>(tensor.data) % Arena::kAlignment;
  const auto elements = static_cast<size_t>(num_rows_ * tensor.row_stride);
  const size_t bytes = offset + elements * SizeOf(tensor.dtype);
  BEAMLINE_ASSIGN_OR_RETURN(void* memory, device_.arena().Allocate(bytes, ArenaUse::kWorkspace));
  memory_.push_back(memory);
  tensor.data = static_cast<char*>(memory) + offset;
  device_.Check(cudaMemsetAsync(memory, kNaNByte, bytes, device_.stream()), "cudaMemset");
  return device_.status();
}

absl::Status LtRows::Initialize(const LtProduct& like) {
  whole_ = like;
  BEAMLINE_RETURN_IF_ERROR(Place(whole_.a));
  BEAMLINE_RETURN_IF_ERROR(Place(whole_.d));
  FillRandom(device_, whole_.a, kSeedA);
  if (!like.c.empty()) {
    BEAMLINE_RETURN_IF_ERROR(Place(whole_.c));
    FillRandom(device_, whole_.c, kSeedC);
  }
  expected_ = whole_;
  BEAMLINE_RETURN_IF_ERROR(Place(expected_.d));
  BEAMLINE_ASSIGN_OR_RETURN(void* differs,
                            device_.arena().Allocate(sizeof(int), ArenaUse::kWorkspace));
  memory_.push_back(differs);
  differs_ = static_cast<int*>(differs);
  return device_.status();
}

LtProduct LtRows::Part(int64_t begin, int64_t count) const {
  LtProduct part = whole_;
  part.a = RowsOf(whole_.a, begin, count);
  part.c = RowsOf(whole_.c, begin, count);
  part.d = RowsOf(whole_.d, begin, count);
  return part;
}

bool LtRows::Agrees(std::span<const int64_t> sizes,
                    const std::function<bool(const LtProduct&)>& launch) {
  const auto elements = static_cast<size_t>(num_rows_ * whole_.d.row_stride);
  device_.Check(
      cudaMemsetAsync(whole_.d.data, kNaNByte, elements * SizeOf(whole_.d.dtype), device_.stream()),
      "cudaMemset");
  device_.Check(cudaMemsetAsync(differs_, 0, sizeof(int), device_.stream()), "cudaMemset");
  int64_t begin = 0;
  for (size_t turn = 0; begin < num_rows_; ++turn) {
    const int64_t count = std::min(sizes[turn % sizes.size()], num_rows_ - begin);
    if (!launch(Part(begin, count))) return false;
    begin += count;
  }
  Compare(device_, whole_.d, expected_.d, kEqual, differs_);
  int differs = 1;
  device_.CopyToHost(differs_, &differs, sizeof(differs));
  return device_.ok() && differs == 0;
}

}  // namespace beamline::cuda
