#include "kernels/cuda/epilogues/lt_trial.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/status.h"
#include "kernels/cuda/epilogues/compare.h"
#include "kernels/cuda/epilogues/fill_random.h"

namespace beamline::cuda {
namespace {

constexpr int kNaNByte = 0xff;         // a NaN in every floating-point type
constexpr int64_t kNumRowsPast = 256;  // as many as a tile of cuBLASLt has
enum Seed : uint32_t { kSeedA = 1, kSeedB, kSeedC, kSeedAux };

// Twice the possible rounding error of an element of size 1, because r may be rounded before the
// epilogue too.
double RoundingUnit(const LtProduct& p) {
  if (p.tf32) return 0x1p-9;
  if (p.d.dtype == DType::kFloat16) return 0x1p-10;
  if (p.d.dtype == DType::kBFloat16) return 0x1p-7;
  if (UsesGeluInput(p.epilogue)) return 0x1p-14;  // cuBLASLt's tanh is accurate to about 1e-5
  // The accumulators' own error grows like a random walk.
  return std::max(0x1p-18, 0x1p-23 * std::sqrt(static_cast<double>(std::max(p.m(), p.k()))));
}

// The errors of num_addends addends of size 1 add up like a random walk. Three times that is
// allowed, and the rounding of the sum.
Closeness CloseSums(double unit, int64_t num_addends) {
  return {static_cast<float>(3 * unit * std::sqrt(static_cast<double>(num_addends))),
          static_cast<float>(unit)};
}

bool AddsInPlace(const LtProduct& p) { return !p.c.empty() && p.c.data == p.d.data; }

}  // namespace

absl::StatusOr<std::unique_ptr<LtTrial>> LtTrial::Create(Device& device, const LtProduct& like) {
  BEAMLINE_CHECK(WritesBias(like.epilogue));
  std::unique_ptr<LtTrial> trial(new LtTrial(device));
  BEAMLINE_RETURN_IF_ERROR(trial->Initialize(like));
  return trial;
}

// No wait is needed: later uses of the memory come after the trial in the stream.
LtTrial::~LtTrial() {
  for (void* memory : memory_) device_.arena().Free(memory);
}

absl::Status LtTrial::Place(Tensor& tensor) {
  // As far from an aligned address as the original, because the distance is part of the key.
  const size_t offset = reinterpret_cast<uintptr_t>(tensor.data) % Arena::kAlignment;
  const auto elements = static_cast<size_t>((tensor.num_rows() + kNumRowsPast) * tensor.row_stride);
  const size_t bytes = offset + elements * SizeOf(tensor.dtype);
  BEAMLINE_ASSIGN_OR_RETURN(void* memory, device_.arena().Allocate(bytes, ArenaUse::kWorkspace));
  memory_.push_back(memory);
  device_.Check(cudaMemsetAsync(memory, kNaNByte, bytes, device_.stream()), "cudaMemset");
  tensor.data = static_cast<char*>(memory) + offset;
  return device_.status();
}

absl::Status LtTrial::Initialize(const LtProduct& like) {
  product_ = like;
  product_.alpha = 3.0f / std::sqrt(static_cast<float>(like.k()));  // numbers in [-1, 1)
  BEAMLINE_RETURN_IF_ERROR(Place(product_.a));
  BEAMLINE_RETURN_IF_ERROR(Place(product_.b));
  BEAMLINE_RETURN_IF_ERROR(Place(product_.d));
  BEAMLINE_RETURN_IF_ERROR(Place(product_.bias));
  FillRandom(device_, product_.a, kSeedA);
  FillRandom(device_, product_.b, kSeedB);
  if (AddsInPlace(like)) {
    product_.c.data = product_.d.data;
  } else if (!like.c.empty()) {
    BEAMLINE_RETURN_IF_ERROR(Place(product_.c));
    FillRandom(device_, product_.c, kSeedC);
  }
  if (!like.aux.empty()) {
    BEAMLINE_RETURN_IF_ERROR(Place(product_.aux));
    FillRandom(device_, product_.aux, kSeedAux);
  }
  reference_ = product_;
  BEAMLINE_RETURN_IF_ERROR(Place(reference_.d));
  BEAMLINE_RETURN_IF_ERROR(Place(reference_.bias));
  if (AddsInPlace(like)) reference_.c.data = reference_.d.data;
  Reset(product_);
  Reset(reference_);
  BEAMLINE_ASSIGN_OR_RETURN(void* differs,
                            device_.arena().Allocate(sizeof(int), ArenaUse::kWorkspace));
  memory_.push_back(differs);
  differs_ = static_cast<int*>(differs);
  return device_.status();
}

void LtTrial::Reset(const LtProduct& product) {
  for (const Tensor* output : {&product.d, &product.bias}) {
    const auto elements = static_cast<size_t>(output->num_rows() * output->row_stride);
    device_.Check(
        cudaMemsetAsync(output->data, kNaNByte, elements * SizeOf(output->dtype), device_.stream()),
        "cudaMemset");
  }
  if (AddsInPlace(product)) FillRandom(device_, product.c, kSeedC);
}

bool LtTrial::Agrees() {
  device_.Check(cudaMemsetAsync(differs_, 0, sizeof(int), device_.stream()), "cudaMemset");
  const LtProduct& p = product_;
  const bool of_operand = p.epilogue == LtEpilogue::kBgradA || p.epilogue == LtEpilogue::kBgradB;
  const double unit = RoundingUnit(p);
  Compare(device_, p.bias, reference_.bias, CloseSums(unit, of_operand ? p.k() : p.m()), differs_);
  Compare(device_, p.d, reference_.d, CloseSums(unit, 1), differs_);
  int differs = 1;
  device_.CopyToHost(differs_, &differs, sizeof(differs));
  return device_.ok() && differs == 0;
}

}  // namespace beamline::cuda
