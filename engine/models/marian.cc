// Marian: the post-norm encoder-decoder of the opus-mt models, with sinusoidal positions.
#include <initializer_list>
#include <string>

#include "base/status.h"
#include "engine/models/bart_like.h"
#include "engine/models/config_fields.h"
#include "engine/models/families.h"
#include "engine/models/shared_tables.h"

namespace beamline {
namespace {

constexpr BartLike kMarian = {.vocab_size = 58101, .positions = PositionKind::kSinusoidal};

StackSpec MarianStack(ConfigFields& config, const std::string& side) {
  StackSpec stack = ReadBartStack(config, kMarian, side);
  if (side == "decoder") stack.vocab_size = config.Size("decoder_vocab_size", stack.vocab_size);
  return stack;
}

// The first of `names` that the checkpoint has; if it has none, the first one.
std::string FirstStored(const Checkpoint& checkpoint, std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    if (checkpoint.Contains(name)) return name;
  }
  return *names.begin();
}

}  // namespace

absl::StatusOr<FamilyDescription> DescribeMarian(const Checkpoint& checkpoint) {
  ConfigFields config(checkpoint.config(), "config.json");
  FamilyDescription description;
  TransformerSpec& spec = description.spec;
  config.Alias("d_model", "hidden_size");
  config.Alias("encoder_layers", "num_hidden_layers");
  config.Alias("encoder_attention_heads", "num_attention_heads");
  config.RequireBool("is_encoder_decoder", true, true);
  StackSpec& encoder = spec.encoder.emplace(MarianStack(config, "encoder"));
  StackSpec& decoder = spec.decoder.emplace(MarianStack(config, "decoder"));
  const bool tied = config.Bool("tie_word_embeddings", true);
  const bool shared = config.Bool("share_encoder_decoder_embeddings", true);
  // With shared embeddings, transformers uses only vocab_size.
  if (shared) decoder.vocab_size = encoder.vocab_size;
  RequireOlderFields(config, kMarian);
  BEAMLINE_RETURN_IF_ERROR(config.status());

  const std::string prefix = checkpoint.Contains("final_logits_bias") ? "model." : "";
  // Some checkpoints store the sinusoids.
  spec.ignored_tensors = {prefix + "*.embed_positions.weight"};
  if (shared && tied) {
    NameTables(checkpoint, prefix, tied, TableOrder::kHeadFirst, spec);
  } else {
    const std::string shared_table = prefix + "shared.weight";
    const std::string encoder_table = prefix + "encoder.embed_tokens.weight";
    const std::string decoder_table = prefix + "decoder.embed_tokens.weight";
    encoder.token_table = FirstStored(checkpoint, {encoder_table, shared_table});
    decoder.token_table = FirstStored(checkpoint, {decoder_table, shared_table});
    NameHead(checkpoint, "lm_head.weight", tied, spec);
    if (shared) {
      spec.ignored_tensors.insert(spec.ignored_tensors.end(),
                                  {shared_table, encoder_table, decoder_table});
    }
  }
  encoder.layers = BartLayers(prefix + "encoder.", /*cross_attention=*/false);
  decoder.layers = BartLayers(prefix + "decoder.", /*cross_attention=*/true);

  spec.vocab_size = decoder.vocab_size;
  if (checkpoint.Contains("final_logits_bias")) spec.head_bias = "final_logits_bias";

  // If the files name no other id, transformers uses none of the class.
  description.generation.decoder_start_token_id = 58100;
  return description;
}

}  // namespace beamline
