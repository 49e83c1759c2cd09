#include "engine/loading/host_heads.h"

#include <vector>

#include "base/status.h"
#include "kernels/cpu/cpu_backend.h"

namespace beamline {

bool FillsMasks(const LoadedModel& model) {
  return model.description.spec.mask_head.has_value() && model.tokenizer->mask_id().has_value();
}

ModelTypes MaskHeadTypes(const ModelTypes& of_model) {
  return of_model.keeps_stored ? of_model : ModelTypes(DType::kFloat32);
}

absl::Status LoadHostHeads(const Checkpoint& checkpoint, const LoadContext& context,
                           LoadedModel& model) {
  const TransformerSpec& spec = model.description.spec;
  // A model with cores of its own leaves those of others alone.
  const int num_threads = context.cpu.cores.empty() ? context.cpu.num_threads : 1;
  const auto host = [&] { return MakeCpuBackend({.num_threads = num_threads}); };
  if (spec.classifier.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(
        model.heads.classifier,
        ClassifierHead::Create(*spec.classifier, spec.encoder->hidden_size, checkpoint, host()));
  }
  const std::vector<DenseSpec>& dense = model.description.encoding.dense;
  if (!dense.empty() && !spec.classifier.has_value()) {
    BEAMLINE_ASSIGN_OR_RETURN(model.heads.dense,
                              DenseHead::Create(dense, checkpoint.path(), host()));
  }
  if (FillsMasks(model)) {
    BEAMLINE_ASSIGN_OR_RETURN(model.heads.mask,
                              MaskHead::Create(*spec.mask_head, *spec.encoder, checkpoint,
                                               MaskHeadTypes(model.types), host()));
  }
  return absl::OkStatus();
}

}  // namespace beamline
