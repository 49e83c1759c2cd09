// Products on cuBLASLt, with its algorithm chosen by measurement and remembered in a file.
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

// As cublasLt.h declares it, which users of this header need not have.
struct cublasLtContext;

namespace beamline::cuda {

struct LtCall;

// One thread at a time; work goes to the device's stream in call order. Measuring takes scratch
// memory of the device: a caller outside of a backend begins with Device::BeginOperator().
class LtMatMul {
 public:
  // `algorithm_file` keeps the choices between processes; empty: nothing is kept. A file that
  // cannot be used costs a line on stderr and new measurements.
  static absl::StatusOr<std::unique_ptr<LtMatMul>> Create(Device& device,
                                                          std::string algorithm_file = "");
  ~LtMatMul();
  LtMatMul(const LtMatMul&) = delete;
  LtMatMul& operator=(const LtMatMul&) = delete;

  // The first product of a kind (an AlgorithmKey) that the file does not know measures cuBLASLt's
  // candidates, which synchronises; later ones only launch. An epilogue that writes sums has a
  // split form: a plain product, and BackwardEpilogue behind it. Its candidates run on an LtTrial's
  // operands, and those that compute something else than the split form are left out. Without
  // device memory for the trial the split form itself is used. INVALID_ARGUMENT: Validate(product).
  // UNIMPLEMENTED: cuBLASLt has no algorithm for it. A fault of the device is returned too.
  absl::Status Run(const LtProduct& product);

  // Runs products of any shapes that do not depend on each other, several at a time where the GPU
  // has room. In the stream's order they are one operator. The first call takes kNumLanes - 1 more
  // workspaces. Errors as Run.
  absl::Status RunGroup(std::span<const LtProduct> products);

  // For epilogues that write sums, which are FAILED_PRECONDITION without it; those of gradients
  // alone may be faster with it. Call it before the first product; `gradients` outlives this
  // object.
  void set_gradients(const LtGradients& gradients) { gradients_ = &gradients; }

  // Kinds measured by this object, and kinds that the file knew and cuBLASLt accepted.
  int num_measured() const { return num_measured_; }
  int num_recalled() const { return num_recalled_; }
  // Candidates left out because they computed something else than the split form.
  int num_dropped() const { return num_dropped_; }

  // For calls of cuBLASLt that this class does not offer.
  cublasLtContext* handle() const { return handle_; }

  static constexpr int kNumLanes = 4;

 private:
  // One of RunGroup's streams, and the workspace of the products that run there. Lane 0 is the
  // device's own stream.
  struct Lane {
    cudaStream_t stream = nullptr;
    cudaEvent_t done = nullptr;
    void* workspace = nullptr;
  };

  explicit LtMatMul(Device& device, AlgorithmFile file) : device_(device), file_(std::move(file)) {}
  // The algorithm of the product's kind. Null when cuBLASLt offers none; it may still pick one by
  // itself. kSplit, all zero: the split form is faster, or all that there is.
  const AlgorithmBits* Choose(const LtProduct& product);
  // The fastest of `contenders` and, where there is one, the split form; none when none runs.
  // Overwrites the outputs.
  std::optional<AlgorithmBits> Measure(const LtProduct& product,
                                       std::vector<AlgorithmBits> contenders);
  // As Measure, for an epilogue that writes sums: only among candidates that agree with the split
  // form on a trial's operands. None when there is no device memory for those.
  std::optional<AlgorithmBits> MeasureChecked(const LtProduct& product);
  // What all row counts of a batch_invariant product must come out like: the first of cuBLASLt's
  // candidates for kReferenceRows rows whose rows do not depend on each other. Not the fastest,
  // which the next process might find to be another one.
  std::optional<AlgorithmBits> FindReference(const LtProduct& product);
  const AlgorithmBits* Reference(const LtProduct& product);
  // The fastest of those whose rows are the reference's; without memory to see that, the reference.
  std::optional<AlgorithmBits> MeasureRows(const LtProduct& product);
  // Returns a cublasStatus_t.
  int Launch(const LtProduct& product, LtCall& call, const AlgorithmBits* algorithm,
             const Lane& lane);
  // The product's own errors, and that of an epilogue that needs gradients_.
  absl::Status Validate(const LtProduct& product) const;
  // Whether RunSplit computes it.
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
