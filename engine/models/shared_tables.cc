#include "engine/models/shared_tables.h"

#include <cstring>
#include <initializer_list>

namespace beamline {
namespace {

bool SameValues(const Checkpoint& checkpoint, const std::string& left, const std::string& right) {
  const auto a = checkpoint.Find(left), b = checkpoint.Find(right);
  if (!a.ok() || !b.ok()) return false;
  return a->dtype == b->dtype && a->shape == b->shape && a->size == b->size &&
         std::memcmp(a->data, b->data, a->size) == 0;
}

}  // namespace

void NameTables(const Checkpoint& checkpoint, const std::string& prefix, bool tied,
                TransformerSpec& spec) {
  const std::string encoder = prefix + "encoder.embed_tokens.weight";
  const std::string decoder = prefix + "decoder.embed_tokens.weight";
  const std::string head = "lm_head.weight";
  std::string shared = prefix + "shared.weight";
  for (const std::string& name : {shared, encoder, decoder, head}) {
    if (!checkpoint.Contains(name)) continue;
    shared = name;
    break;
  }
  const auto own_or_shared = [&](const std::string& name) {
    const bool own = checkpoint.Contains(name) && !SameValues(checkpoint, name, shared);
    return own ? name : shared;
  };
  spec.encoder->token_table = own_or_shared(encoder);
  spec.decoder->token_table = own_or_shared(decoder);
  spec.head = tied ? own_or_shared(head) : head;
  spec.ignored_tensors = {prefix + "shared.weight", encoder, decoder};
  if (tied) spec.ignored_tensors.push_back(head);
}

}  // namespace beamline
