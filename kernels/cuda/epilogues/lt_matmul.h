// Matmuls on cuBLASLt. Its algorithms are chosen by measurement and remembered in a file.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/epilogues/algorithm_file.h"
#include "kernels/cuda/epilogues/lt_gradients.h"
#include "kernels/cuda/epilogues/lt_product.h"

// As declared by cublasLt.h, which users of this header need not have.
struct cublasLtContext;

namespace beamline::cuda {

struct LtCall;

// One thread at a time. Work goes to the device's stream in call order. Measuring takes scratch
// memory of the device: a caller outside of a backend calls Device::BeginOperator() first.
class LtMatMul {
 public:
  // `algorithm_file` keeps the choices between processes. If it is empty, nothing is kept. A file
  // that cannot be used costs a line on stderr and new measurements.
  static absl::StatusOr<std::unique_ptr<LtMatMul>> Create(Device& device,
                                                          std::string algorithm_file = "");
  ~LtMatMul();
  LtMatMul(const LtMatMul&) = delete;
  LtMatMul& operator=(const LtMatMul&) = delete;

  // The first product of a kind (an AlgorithmKey) that the file does not know measures cuBLASLt's
  // candidates, which synchronises. Later products of the kind only launch. An epilogue that writes
  // sums has a split form: a plain product, then BackwardEpilogue. Its candidates run on an
  // LtTrial's operands, and those whose results differ from the split form's are left out. Without
  // device memory for the trial the split form itself is used. INVALID_ARGUMENT: see
  // Validate(product). UNIMPLEMENTED: cuBLASLt has no algorithm for it. Faults of the device are
  // returned too.
  absl::Status Run(const LtProduct& product);

  // Runs independent products of any shapes, several at a time if the GPU has room. In stream order
  // they are one operator. The first call allocates kNumLanes - 1 more workspaces. Errors as in
  // Run.
  absl::Status RunGroup(std::span<const LtProduct> products);

  // Needed for epilogues that write sums, which are FAILED_PRECONDITION without it. Epilogues that
  // are only gradients may be faster with it. Call it before the first product. `gradients`
  // outlives this object.
  void set_gradients(const LtGradients& gradients) { gradients_ = &gradients; }

  // Kinds measured by this object, and kinds that were in the file and accepted by cuBLASLt.
  int num_measured() const { return num_measured_; }
  int num_recalled() const { return num_recalled_; }
  // Candidates left out because their results differ from the split form's, or, for batch_invariant
  // products, from the reference's.
  int num_dropped() const { return num_dropped_; }

  // For calls of cuBLASLt that this class does not offer.
  cublasLtContext* handle() const { return handle_; }

  static constexpr int kNumLanes = 4;

 private:
  // One of RunGroup's streams, and the workspace of its products. Lane 0 is the device's own
  // stream.
  struct Lane {
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
    void* workspace = nullptr;
  };

  explicit LtMatMul(Device& device, AlgorithmFile file) : device_(device), file_(std::move(file)) {}
  // The algorithm of the product's kind. Null if cuBLASLt offers none; it may still pick one
  // itself. kSplit, all zero: the split form is faster, or the only one.
  const AlgorithmBits* Choose(const LtProduct& product);
  // The fastest of `contenders` and, if there is one, the split form; nullopt if none runs.
  // Overwrites the outputs.
  std::optional<AlgorithmBits> Measure(const LtProduct& product,
                                       std::vector<AlgorithmBits> contenders);
  // Measure for an epilogue that writes sums: only candidates that agree with the split form on a
  // trial's operands. nullopt if there is no device memory for those.
  std::optional<AlgorithmBits> MeasureChecked(const LtProduct& product);
  // The algorithm whose results all row counts of a batch_invariant product must match: the first
  // of cuBLASLt's candidates for kReferenceRows rows whose rows do not depend on each other. It is
  // not the fastest, because the next process might measure another one as the fastest.
  std::optional<AlgorithmBits> FindReference(const LtProduct& product);
  const AlgorithmBits* Reference(const LtProduct& product);
  // The fastest algorithm whose rows match the reference's. Without memory to check that, the
  // reference.
  std::optional<AlgorithmBits> MeasureRows(const LtProduct& product);
  // Returns a cublasStatus_t.
  int Launch(const LtProduct& product, LtCall& call, const AlgorithmBits* algorithm,
             const Lane& lane);
  // The product's own errors, and that of an epilogue that needs gradients_.
  absl::Status Validate(const LtProduct& product) const;
  // Whether RunSplit can compute it.
  bool HasSplit(const LtProduct& product) const;
  absl::Status RunSplit(const Lane& lane, const LtProduct& product);
  absl::Status RunOn(const Lane& lane, const LtProduct& product);
  absl::Status MakeLanes();
  void Report(const absl::Status& status);

  Device& device_;
  const LtGradients* gradients_ = nullptr;
  cublasLtContext* handle_ = nullptr;
  std::array<Lane, kNumLanes> lanes_;
  AlgorithmFile file_;
  std::map<AlgorithmKey, AlgorithmBits> chosen_;
  int num_measured_ = 0;
  int num_recalled_ = 0;
  int num_dropped_ = 0;
};

}  // namespace beamline::cuda
