// One function per family that turns config.json and weight names into a spec. models.cc lists
// them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/models/config_fields.h"
#include "engine/models/models.h"

namespace beamline {

// A family's description, except what comes from the generation and sentence-transformers files.
struct FamilyDescription {
  TransformerSpec spec;
  // Defaults of transformers' configuration class for absent fields of config.json; used only
  // without generation_config.json.
  GenerationDefaults generation;
};

// Whether the architectures in config.json name a classifier of any family: one of texts or tokens
// (IsClassifier), or one of tokens (IsTokenClassifier).
bool IsClassifier(const Checkpoint& checkpoint);
bool IsTokenClassifier(const Checkpoint& checkpoint);
// UNIMPLEMENTED if a tensor belongs to a task's head that is not served. Such a model must not be
// served as a plain encoder: its users expect the head's output. The architecture decides which
// heads are served.
absl::Status RefuseOtherHeads(const Checkpoint& checkpoint);
// Adds the classifier head to the spec, with the number of classes from config.json, and assigns
// its tensors to it. If the output matrix has another number of rows, that is a fault of
// config.json. Names are without ".weight".
void SetClassifier(const Checkpoint& checkpoint, const std::string& dense, Activation activation,
                   const std::string& output, ConfigFields& config, TransformerSpec& spec);
// The same for heads with other tensor names; `dense` may be empty.
void SetClassifierHead(const Checkpoint& checkpoint, LinearNames dense, Activation activation,
                       LinearNames output, ConfigFields& config, TransformerSpec& spec);
// The same for token classification, which has only an output matrix: "classifier" in every family
// except ModernBERT.
void SetTokenClassifier(const Checkpoint& checkpoint, ConfigFields& config, TransformerSpec& spec);

// The MLM head, by tensor names without ".weight". Sets nothing in three cases: the architectures
// name another model; the folder is a sentence-transformers model, which answers with vectors only;
// or the checkpoint has no such head.
struct MaskHeadNames {
  std::string dense, norm;
  std::string output;  // a matrix of its own; if absent or unnamed: the token embedding matrix
  std::string bias;    // output bias, if the own matrix has none
  bool biases_may_miss = false;  // the head's biases may be absent, then they are 0
  // From config.json. A bias that config.json disables is not read, even if it is stored.
  bool has_dense_bias = true, has_norm_bias = true, has_output_bias = true;
};
void SetMaskHead(const Checkpoint& checkpoint, const MaskHeadNames& names, Activation activation,
                 ConfigFields& config, TransformerSpec& spec);

// Reports a fault of config.json's `field` if it differs from the number of rows of `table` in the
// checkpoint. Does nothing if the table is missing; its reader reports that.
void CheckTableRows(const Checkpoint& checkpoint, const std::string& table, std::string_view field,
                    int32_t rows, ConfigFields& config);

// The layer_types of config.json, kFullAttention or kSlidingAttention per layer; empty if absent.
std::vector<std::string> LayerTypes(ConfigFields& config, int32_t num_layers);

absl::StatusOr<FamilyDescription> DescribeBert(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeRoberta(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeElectra(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeDistilBert(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeAlbert(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeMpNet(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeModernBert(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeNomicBert(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeDebertaV2(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeDeberta(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeMarian(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeBart(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeMBart(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribePegasus(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeM2M100(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeT5(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeMt5(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGpt2(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeLlama(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeMistral(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeQwen2(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeQwen3(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeSmolLm3(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeMixtral(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeQwen2Moe(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeQwen3Moe(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeOlmoe(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeOlmo(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeOlmo2(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribePhi3(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeStarcoder2(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGptNeoX(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGptJ(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGemma(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGemma2(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGemma3(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeOpt(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeGptNeo(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeFalcon(const Checkpoint& checkpoint);
absl::StatusOr<FamilyDescription> DescribeBloom(const Checkpoint& checkpoint);

}  // namespace beamline
