// The token tables and the head of models with a decoder, which most checkpoints store once.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/spec.h"

namespace beamline {

// What counts where tied tensors are stored more than once, as in transformers 5: a tensor whose
// values differ from those that it is tied to is one of its own, and a copy is ignored.

// Names the head of a decoder whose token table is known. `head`: its tensor's name; `tied`: to
// that table.
void NameHead(const Checkpoint& checkpoint, const std::string& head, bool tied,
              TransformerSpec& spec);

// In which order transformers looks for the table that all are tied to, where "shared" is missing.
enum class TableOrder { kHeadFirst, kHeadLast };

// Names the tables of both stacks and the head of an encoder-decoder, which are tied to
// "shared.weight"; `tied`: the head too. `prefix` is the one of the names but the head's.
void NameTables(const Checkpoint& checkpoint, const std::string& prefix, bool tied,
                TableOrder order, TransformerSpec& spec);

}  // namespace beamline
