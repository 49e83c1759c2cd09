#include "kernels/cuda/epilogues/lt_matmul.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "kernels/cuda/epilogues/lt_call.h"
#include "kernels/cuda/epilogues/lt_measure.h"
#include "kernels/cuda/epilogues/lt_rows.h"

namespace beamline::cuda {
namespace {

constexpr int kNumChecks = 2;
constexpr int kNumRounds = 3;
constexpr size_t kNumFinalists = 3;
constexpr int kNumFinalRounds = 5;
constexpr int kPoison = 0xff;  // NaN in every type
constexpr AlgorithmBits kSplit = {};
constexpr int64_t kReferenceRows = 256;  // the full size of a bucket
constexpr std::array<int64_t, 4> kFewerRows = {1, 64, 7, 24};

LtProduct WithoutEpilogue(LtProduct product) {
  product.epilogue = LtEpilogue::kNone;
  product.bias = product.aux = Tensor();
  return product;
}

LtProduct WithRows(LtProduct product, int64_t num_rows) {
  product.a.dims[product.a.rank - 2] = product.d.dims[0] = num_rows;
  if (!product.c.empty()) product.c.dims[product.c.rank - 2] = num_rows;
  return product;
}

std::string Describe(const LtProduct& p) {
  return fmt::format("a product of {} and {} to {}, epilogue {}", p.a.DebugString(),
                     p.b.DebugString(), p.d.DebugString(), Name(p.epilogue));
}

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
                            device.arena().Allocate(kLtWorkspaceBytes, ArenaUse::kWorkspace));
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

// A file that cannot be used only costs time, so a line on stderr is enough.
void LtMatMul::Report(const absl::Status& status) {
  if (status.ok()) return;
  fmt::print(stderr, "cuBLASLt algorithms: {}\n", std::string(status.message()));
}

std::optional<AlgorithmBits> LtMatMul::Measure(const LtProduct& product,
                                               std::vector<AlgorithmBits> contenders) {
  if (!device_.ok()) return std::nullopt;
  if (HasSplit(product) && Choose(WithoutEpilogue(product)) != nullptr) {
    contenders.push_back(kSplit);
  }
  LtCall call(product);
  const auto launch = [&](const AlgorithmBits& algorithm) {
    if (algorithm == kSplit) return RunSplit(lanes_[0], product).ok();
    return Launch(product, call, &algorithm, lanes_[0]) == CUBLAS_STATUS_SUCCESS;
  };
  Rank(device_, kNumRounds, launch, contenders);
  contenders.resize(std::min(contenders.size(), kNumFinalists));
  Rank(device_, kNumFinalRounds, launch, contenders);
  if (contenders.empty()) return std::nullopt;
  return contenders.front();
}

std::optional<AlgorithmBits> LtMatMul::MeasureChecked(const LtProduct& original) {
  const auto trial = gradients_->MakeTrial(device_, original);
  if (!trial.ok() || !RunSplit(lanes_[0], (*trial)->reference()).ok()) return std::nullopt;
  const LtProduct& product = (*trial)->product();
  LtCall call(product);
  std::vector<AlgorithmBits> candidates = Candidates(handle_, product);
  std::erase_if(candidates, [&](const AlgorithmBits& algorithm) {
    for (int check = 0; check < kNumChecks; ++check) {
      (*trial)->Reset();
      device_.Check(
          cudaMemsetAsync(lanes_[0].workspace, kPoison, kLtWorkspaceBytes, device_.stream()),
          "cudaMemset");
      if (Launch(product, call, &algorithm, lanes_[0]) != CUBLAS_STATUS_SUCCESS) return true;
      if ((*trial)->Agrees()) continue;
      ++num_dropped_;
      return true;
    }
    return false;
  });
  return Measure(product, std::move(candidates));
}

std::optional<AlgorithmBits> LtMatMul::FindReference(const LtProduct& product) {
  const auto rows = LtRows::Create(device_, product, kReferenceRows);
  const std::vector<AlgorithmBits> candidates = Candidates(handle_, product);
  for (const AlgorithmBits& algorithm : candidates) {
    if (!rows.ok()) break;
    const auto launch = [&](const LtProduct& part) {
      LtCall call(part);
      return Launch(part, call, &algorithm, lanes_[0]) == CUBLAS_STATUS_SUCCESS;
    };
    if (launch((*rows)->expected()) && (*rows)->Agrees(kFewerRows, launch)) return algorithm;
    ++num_dropped_;
  }
  return std::nullopt;
}

const AlgorithmBits* LtMatMul::Reference(const LtProduct& product) {
  return Choose(WithRows(product, kReferenceRows));
}

std::optional<AlgorithmBits> LtMatMul::MeasureRows(const LtProduct& product) {
  const int64_t num_rows = BucketRows(product.m());
  if (num_rows == kReferenceRows) return FindReference(product);
  const AlgorithmBits* reference = Reference(product);
  if (reference == nullptr) return std::nullopt;
  const auto rows = LtRows::Create(device_, product, std::max(num_rows, kReferenceRows));
  if (!rows.ok()) return *reference;
  const auto launch = [&](const AlgorithmBits& algorithm, const LtProduct& part) {
    LtCall call(part);
    return Launch(part, call, &algorithm, lanes_[0]) == CUBLAS_STATUS_SUCCESS;
  };
  if (!launch(*reference, (*rows)->expected())) return std::nullopt;
  // The bucket's largest row count and, if it has several, one that does not fill it.
  const std::array<int64_t, 2> sizes = {num_rows, num_rows > 16 ? num_rows - 1 : num_rows};
  const LtProduct full = (*rows)->Part(0, num_rows);
  std::vector<AlgorithmBits> candidates = Candidates(handle_, full);
  std::erase_if(candidates, [&](const AlgorithmBits& algorithm) {
    const bool same =
        (*rows)->Agrees(sizes, [&](const LtProduct& part) { return launch(algorithm, part); });
    num_dropped_ += same ? 0 : 1;
    return !same;
  });
  if (std::find(candidates.begin(), candidates.end(), *reference) == candidates.end()) {
    candidates.push_back(*reference);
  }
  const auto fastest = Measure(full, std::move(candidates));
  return fastest.has_value() ? fastest : *reference;
}

int LtMatMul::Launch(const LtProduct& product, LtCall& call, const AlgorithmBits* algorithm,
                     const Lane& lane) {
  return call.Launch(handle_, product, algorithm, lane.workspace, lane.stream);
}

bool LtMatMul::HasSplit(const LtProduct& product) const {
  return gradients_ != nullptr && HasBackwardEpilogue(product);
}

absl::Status LtMatMul::Validate(const LtProduct& product) const {
  BEAMLINE_RETURN_IF_ERROR(cuda::Validate(product));
  if (!WritesBias(product.epilogue) || gradients_ != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "epilogue {} writes sums, which needs LtMatMul::set_gradients", Name(product.epilogue)));
}

absl::Status LtMatMul::RunSplit(const Lane& lane, const LtProduct& product) {
  BEAMLINE_RETURN_IF_ERROR(RunOn(lane, WithoutEpilogue(product)));
  gradients_->Finish(device_, product, lane.stream);
  return device_.status();
}

const AlgorithmBits* LtMatMul::Choose(const LtProduct& product) {
  const AlgorithmKey key = KeyOf(product);
  if (const auto known = chosen_.find(key); known != chosen_.end()) return &known->second;
  if (const AlgorithmBits* saved = file_.Find(key); saved != nullptr) {
    const bool fits =
        *saved == kSplit ? HasSplit(product) : LtCall(product).Accepts(handle_, *saved);
    if (fits) {
      ++num_recalled_;
      return &chosen_.emplace(key, *saved).first->second;
    }
  }
  const bool sums = WritesBias(product.epilogue);
  std::optional<AlgorithmBits> fastest;
  if (sums) {
    fastest = MeasureChecked(product);
  } else if (product.batch_invariant) {
    fastest = MeasureRows(WithRows(product, BucketRows(product.m())));
  } else {
    const LtProduct on_scratch = OnScratch(device_, product);
    fastest = Measure(on_scratch, Candidates(handle_, on_scratch));
  }
  if (!device_.ok()) return nullptr;
  // An algorithm that has not been checked is not run. The split form runs instead, and is not
  // saved as the fastest.
  if (!fastest.has_value()) return sums ? &chosen_.emplace(key, kSplit).first->second : nullptr;
  ++num_measured_;
  Report(file_.Add(key, *fastest));
  return &chosen_.emplace(key, *fastest).first->second;
}

absl::Status LtMatMul::RunOn(const Lane& lane, const LtProduct& product) {
  const AlgorithmBits* algorithm = Choose(product);
  if (!device_.ok()) return device_.status();
  if (algorithm != nullptr && *algorithm == kSplit) return RunSplit(lane, product);
  if (product.batch_invariant && algorithm == nullptr) {
    return absl::UnimplementedError(
        fmt::format("cuBLASLt has no algorithm that computes rows alike in every batch for {}",
                    Describe(product)));
  }
  LtCall call(product);
  int status = Launch(product, call, algorithm, lane);
  const bool refused =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
  if (refused && product.batch_invariant) {
    if (const AlgorithmBits* reference = Reference(product); reference != nullptr) {
      status = Launch(product, call, reference, lane);
    }
  }
  // cuBLASLt's own pick would be unchecked.
  if (refused && WritesBias(product.epilogue)) return RunSplit(lane, product);
  // An algorithm that was measured at a bucket's full size may refuse a smaller one. cuBLASLt then
  // picks one itself.
  if (refused && algorithm != nullptr && !product.batch_invariant) {
    status = Launch(product, call, nullptr, lane);
  }
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
                              device_.arena().Allocate(kLtWorkspaceBytes, ArenaUse::kWorkspace));
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
  // Measuring needs the GPU to itself, so it comes before any lane starts.
  for (const LtProduct& product : products) Choose(product);
  if (!device_.ok()) return device_.status();

  // The longest first, each on the lane with the least work so far.
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
