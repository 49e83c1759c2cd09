// BERT, RoBERTa and ELECTRA: post-norm encoders with learned positions. They return hidden states,
// fill masks with an MLM head, or classify texts or tokens with a classifier head. Other
// pretraining heads are ignored; heads of other tasks are rejected.
#include <cmath>
#include <string>
#include <string_view>

#include "base/status.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/layer_names.h"

namespace beamline {
namespace {

// Checkpoints converted from TensorFlow call a norm's gain gamma and its bias beta.
NormNames BertNorm(const std::string& name, bool tensorflow_names) {
  if (tensorflow_names) return {name + ".gamma", name + ".beta"};
  return {name + ".weight", name + ".bias"};
}

LayerNames BertLayers(const std::string& prefix, bool tensorflow_names) {
  const std::string layer = prefix + "encoder.layer.{}.";
  const std::string self = layer + "attention.self.";
  LayerNames names;
  names.qkv = {{self + "query.weight", self + "key.weight", self + "value.weight"},
               {self + "query.bias", self + "key.bias", self + "value.bias"}};
  names.attention_output = NamedLinear(layer + "attention.output.dense");
  names.attention_norm = BertNorm(layer + "attention.output.LayerNorm", tensorflow_names);
  names.feed_forward_in = NamedLinear(layer + "intermediate.dense");
  names.feed_forward_out = NamedLinear(layer + "output.dense");
  names.feed_forward_norm = BertNorm(layer + "output.LayerNorm", tensorflow_names);
  return names;
}

// Differences between the families.
struct Member {
  // Prefix of the encoder's tensor names if the checkpoint has a task's head.
  const char* prefix;
  // Whether a classifier's head has its own dense layer; otherwise it uses the pooler's.
  bool has_own_dense = true;
  Activation head_activation = Activation::kTanh;
  MaskHeadNames mask_head;
};

void AddBertHead(const Checkpoint& checkpoint, const std::string& prefix, const Member& member,
                 ConfigFields& config, TransformerSpec& spec) {
  if (IsTokenClassifier(checkpoint)) return SetTokenClassifier(checkpoint, config, spec);
  const std::string dense = member.has_own_dense ? "classifier.dense" : prefix + "pooler.dense";
  const std::string output = member.has_own_dense ? "classifier.out_proj" : "classifier";
  SetClassifier(checkpoint, dense, member.head_activation, output, config, spec);
}

absl::StatusOr<FamilyDescription> DescribeBertLike(const Checkpoint& checkpoint,
                                                   ConfigFields& config, const Member& member) {
  if (!IsClassifier(checkpoint)) BEAMLINE_RETURN_IF_ERROR(RefuseOtherHeads(checkpoint));
  FamilyDescription description;
  StackSpec& encoder = description.spec.encoder.emplace();
  encoder.num_layers = config.Count("num_hidden_layers", 12);
  encoder.hidden_size = config.Size("hidden_size", 768);
  encoder.num_heads = config.Size("num_attention_heads", 12);
  encoder.num_kv_heads = encoder.num_heads;
  encoder.head_dim = encoder.hidden_size / encoder.num_heads;
  if (encoder.head_dim * encoder.num_heads != encoder.hidden_size) {
    config.Fault("num_attention_heads", "hidden_size must be a multiple of it");
  }
  encoder.feed_forward_size = config.Size("intermediate_size", 3072);
  encoder.attention_scale = 1.0f / std::sqrt(static_cast<float>(encoder.head_dim));
  encoder.placement = NormPlacement::kPost;
  encoder.norm_epsilon = config.Epsilon("layer_norm_eps", 1e-12f);
  encoder.activation = config.ActivationFunction("hidden_act", "gelu");
  encoder.positions = PositionKind::kLearned;
  encoder.max_positions = config.Size("max_position_embeddings", 512);
  encoder.vocab_size = config.Size("vocab_size", 30522);
  encoder.num_types = config.Size("type_vocab_size", 2);
  config.RequireString("position_embedding_type", "absolute", "absolute");
  config.RequireBool("is_decoder", false, false);
  config.RequireBool("add_cross_attention", false, false);
  config.OptionalInt("pad_token_id", -1, encoder.vocab_size - 1);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string embeddings = "embeddings.word_embeddings.weight";
  const std::string prefix = checkpoint.Contains(member.prefix + embeddings) ? member.prefix : "";
  const bool tensorflow_names = checkpoint.Contains(prefix + "embeddings.LayerNorm.gamma");
  encoder.token_table = prefix + embeddings;
  encoder.position_table = prefix + "embeddings.position_embeddings.weight";
  encoder.type_table = prefix + "embeddings.token_type_embeddings.weight";
  encoder.embedding_norm = BertNorm(prefix + "embeddings.LayerNorm", tensorflow_names);
  encoder.layers = BertLayers(prefix, tensorflow_names);
  CheckTableRows(checkpoint, encoder.token_table, "vocab_size", encoder.vocab_size, config);
  CheckTableRows(checkpoint, encoder.position_table, "max_position_embeddings",
                 encoder.max_positions, config);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  if (IsClassifier(checkpoint)) {
    AddBertHead(checkpoint, prefix, member, config, description.spec);
    BEAMLINE_RETURN_IF_ERROR(config.status());
  }
  // BERT's MLM head uses the encoder's activation; the others use GELU.
  SetMaskHead(checkpoint, member.mask_head,
              member.has_own_dense ? Activation::kGelu : encoder.activation, config,
              description.spec);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  description.spec.vocab_size = encoder.vocab_size;
  for (const char* name : {"embeddings.position_ids", "embeddings.token_type_ids", "pooler.*"}) {
    description.spec.ignored_tensors.push_back(prefix + name);
  }
  for (const char* name : {"cls.*", "lm_head.*"}) {
    description.spec.ignored_tensors.emplace_back(name);
  }
  return description;
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeBert(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  return DescribeBertLike(checkpoint, config,
                          {.prefix = "bert.",
                           .has_own_dense = false,
                           .mask_head = {.dense = "cls.predictions.transform.dense",
                                         .norm = "cls.predictions.transform.LayerNorm",
                                         .output = "cls.predictions.decoder",
                                         .bias = "cls.predictions.bias"}});
}

// BERT's layers and token types. Discriminator and generator have pretraining heads; a classifier's
// head uses GELU.
absl::StatusOr<FamilyDescription> DescribeElectra(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  BEAMLINE_ASSIGN_OR_RETURN(
      FamilyDescription description,
      DescribeBertLike(checkpoint, config,
                       {.prefix = "electra.",
                        .head_activation = Activation::kGelu,
                        .mask_head = {.dense = "generator_predictions.dense",
                                      .norm = "generator_predictions.LayerNorm",
                                      .output = "generator_lm_head",
                                      .bias = "generator_lm_head.bias"}}));
  StackSpec& encoder = *description.spec.encoder;
  const int32_t embedding_size = config.Size("embedding_size", 128);
  BEAMLINE_RETURN_IF_ERROR(config.status());
  if (embedding_size != encoder.hidden_size) {
    constexpr std::string_view kTable = "embeddings.word_embeddings.weight";
    const std::string prefix =
        encoder.token_table.substr(0, encoder.token_table.size() - kTable.size());
    encoder.projected_size = embedding_size;
    encoder.projection = NamedLinear(prefix + "embeddings_project");
  }
  for (const char* name :
       {"discriminator_predictions.*", "generator_predictions.*", "generator_lm_head.*"}) {
    description.spec.ignored_tensors.emplace_back(name);
  }
  return description;
}

// BERT's layers. The first rows of the position table belong to padding, which does not use a
// position (transformers: create_position_ids_from_input_ids).
absl::StatusOr<FamilyDescription> DescribeRoberta(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  const int32_t padding_id = config.Int("pad_token_id", 0, 1 << 20, 1);
  const int32_t reserved = padding_id + 1;
  BEAMLINE_ASSIGN_OR_RETURN(FamilyDescription description,
                            DescribeBertLike(checkpoint, config,
                                             {.prefix = "roberta.",
                                              .mask_head = {.dense = "lm_head.dense",
                                                            .norm = "lm_head.layer_norm",
                                                            .output = "lm_head.decoder",
                                                            .bias = "lm_head.bias"}}));
  StackSpec& encoder = *description.spec.encoder;
  if (encoder.max_positions <= reserved) {
    config.Fault("max_position_embeddings", "it must exceed pad_token_id + 1");
  }
  BEAMLINE_RETURN_IF_ERROR(config.status());
  encoder.position_offset = reserved;
  encoder.padding_id = padding_id;
  encoder.max_positions -= reserved;
  return description;
}

}  // namespace beamline
