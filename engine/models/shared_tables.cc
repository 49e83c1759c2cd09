#include "engine/models/shared_tables.h"

#include <cstring>
#include <vector>

namespace beamline {
namespace {

constexpr const char* kHead = "lm_head.weight";

bool SameValues(const Checkpoint& checkpoint, const std::string& left, const std::string& right) {
  const auto a = checkpoint.Find(left), b = checkpoint.Find(right);
  if (!a.ok() || !b.ok() || a->data == nullptr || b->data == nullptr) return false;
  return a->dtype == b->dtype && a->shape == b->shape && a->size == b->size &&
         std::memcmp(a->data, b->data, a->size) == 0;
}

// Returns `name` if the checkpoint stores it with values that differ from `shared`.
const std::string& OwnOrShared(const Checkpoint& checkpoint, const std::string& name,
                               const std::string& shared) {
  const bool own = checkpoint.Contains(name) && !SameValues(checkpoint, name, shared);
  return own ? name : shared;
}

}  // namespace

void NameHead(const Checkpoint& checkpoint, const std::string& head, bool tied,
              TransformerSpec& spec) {
  spec.head = tied ? OwnOrShared(checkpoint, head, spec.decoder->token_table) : head;
  if (tied) spec.ignored_tensors.push_back(head);
}

void NameTables(const Checkpoint& checkpoint, const std::string& prefix, bool tied,
                TableOrder order, TransformerSpec& spec) {
  const std::string stored = prefix + "shared.weight";
  const std::string encoder = prefix + "encoder.embed_tokens.weight";
  const std::string decoder = prefix + "decoder.embed_tokens.weight";
  const std::vector<std::string> names =
      order == TableOrder::kHeadFirst ? std::vector<std::string>{stored, kHead, decoder, encoder}
                                      : std::vector<std::string>{stored, encoder, decoder, kHead};
  std::string shared = stored;
  for (const std::string& name : names) {
    if (!checkpoint.Contains(name)) continue;
    shared = name;
    break;
  }
  spec.encoder->token_table = OwnOrShared(checkpoint, encoder, shared);
  spec.decoder->token_table = OwnOrShared(checkpoint, decoder, shared);
  spec.head = tied ? OwnOrShared(checkpoint, kHead, shared) : kHead;
  spec.ignored_tensors.insert(spec.ignored_tensors.end(), {stored, encoder, decoder});
  if (tied) spec.ignored_tensors.push_back(kHead);
}

}  // namespace beamline
