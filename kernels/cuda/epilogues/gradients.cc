#include "kernels/cuda/epilogues/gradients.h"

#include "base/status.h"
#include "kernels/cuda/epilogues/backward_epilogue.h"
#include "kernels/cuda/epilogues/lt_trial.h"

namespace beamline::cuda {
namespace {

class AllGradients final : public LtGradients {
 public:
  void Finish(Device& device, const LtProduct& product, cudaStream_t stream) const override {
    BackwardEpilogue(device, product, stream);
  }
  absl::StatusOr<std::unique_ptr<Trial>> MakeTrial(Device& device,
                                                   const LtProduct& like) const override {
    BEAMLINE_ASSIGN_OR_RETURN(std::unique_ptr<LtTrial> trial, LtTrial::Create(device, like));
    return trial;
  }
};

}  // namespace

const LtGradients& Gradients() {
  static const AllGradients gradients;
  return gradients;
}

}  // namespace beamline::cuda
