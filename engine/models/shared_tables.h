// The token tables of encoder-decoders, which most checkpoints store once for both stacks and the
// head.
#pragma once

#include <string>

#include "engine/checkpoint/checkpoint.h"
#include "engine/transformer/spec.h"

namespace beamline {

// Names the tables of both stacks and the head of `spec`, and what is ignored of the copies. What
// the checkpoint stores under a name of its own counts where it differs from the shared table, as
// in transformers 5; `tied`: of the head too. `prefix` stands before the names but that of the
// head.
void NameTables(const Checkpoint& checkpoint, const std::string& prefix, bool tied,
                TransformerSpec& spec);

}  // namespace beamline
