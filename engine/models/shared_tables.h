// Token embedding matrices and LM head of models with a decoder; most checkpoints store one copy.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/spec.h"

namespace beamline {

// If tied tensors are stored more than once, transformers 5 decides by values. A tensor that
// differs from the one it is tied to is used; an equal copy is ignored.

// Sets the head's tensor of a decoder whose token embedding matrix is known. `head`: its tensor
// name; `tied`: whether it is tied to that matrix.
void NameHead(const Checkpoint& checkpoint, const std::string& head, bool tied,
              TransformerSpec& spec);

// The order in which transformers looks for the shared matrix if "shared" is missing.
enum class TableOrder { kHeadFirst, kHeadLast };

// Sets the token embedding matrices of both stacks and the head of an encoder-decoder; they are
// tied to "shared.weight". `tied`: whether the head is tied, too. `prefix` applies to all names
// except the head's.
void NameTables(const Checkpoint& checkpoint, const std::string& prefix, bool tied,
                TableOrder order, TransformerSpec& spec);

}  // namespace beamline
