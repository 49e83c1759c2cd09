// One function per family: config.json and weight names to a spec. models.cc lists them.
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

// Everything of a family that does not come from the generation and sentence-transformers files.
struct FamilyDescription {
  TransformerSpec spec;
  // What transformers' configuration class has for fields that config.json leaves out; of use only
  // where there is no generation_config.json.
  GenerationDefaults generation;
};

// Whether config.json's architectures name a classifier, of whatever family: of texts, or of their
// tokens.
bool IsClassifier(const Checkpoint& checkpoint);
bool IsTokenClassifier(const Checkpoint& checkpoint);
// A model with a head is not an encoder with something added: who serves one wants what its head
// computes. UNIMPLEMENTED where a tensor is of such a head; which one is served, the architecture
// tells.
absl::Status RefuseOtherHeads(const Checkpoint& checkpoint);
// Gives the spec the classifier's head, of as many classes as the output's matrix is to have by
// config.json, and leaves its tensors to it. A fault of config.json where the two differ. Names are
// of weights without ".weight".
void SetClassifier(const Checkpoint& checkpoint, const std::string& dense, Activation activation,
                   const std::string& output, ConfigFields& config, TransformerSpec& spec);
// Likewise of heads whose products have other names; `dense` may have none.
void SetClassifierHead(const Checkpoint& checkpoint, LinearNames dense, Activation activation,
                       LinearNames output, ConfigFields& config, TransformerSpec& spec);
// The same of a classifier of tokens, which has the output alone, "classifier", in every family but
// ModernBERT.
void SetTokenClassifier(const Checkpoint& checkpoint, ConfigFields& config, TransformerSpec& spec);

// The head of a masked language model, by names of weights without ".weight". Sets nothing where
// config.json's architectures name another model, where the folder is sentence-transformers', whose
// model answers with vectors alone, or where the checkpoint has no such head.
struct MaskHeadNames {
  std::string dense, norm;
  std::string output;  // of a matrix of its own; else, and always without a name, the token table
  std::string bias;    // of the output, where the matrix has none of its own
  bool biases_may_miss = false;  // all of the head's; these are 0 then
  // What config.json says. A bias that it does not ask for is not read, even where it is stored.
  bool has_dense_bias = true, has_norm_bias = true, has_output_bias = true;
};
void SetMaskHead(const Checkpoint& checkpoint, const MaskHeadNames& names, Activation activation,
                 ConfigFields& config, TransformerSpec& spec);

// A fault of config.json's `field` where it says another number of rows than the checkpoint's
// `table` has. Nothing without such a table: who reads it reports that.
void CheckTableRows(const Checkpoint& checkpoint, const std::string& table, std::string_view field,
                    int32_t rows, ConfigFields& config);

// What config.json's layer_types say of each layer, kFullAttention or kSlidingAttention; empty
// where it says nothing.
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
