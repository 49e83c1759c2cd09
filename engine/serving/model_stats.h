// The numbers of a model, put together from those of its replicas.
#pragma once

#include "engine/api/model.h"
#include "engine/serving/replica.h"

namespace beamline {

// What only grows: of replicas that there are no more, these stay.
void AddCounters(const Replica& replica, ModelStats& stats);
// The counters of `more`, added to those of `stats`.
void AddCounts(const ModelStats& more, ModelStats& stats);
// The rest, with `state` among stats.replicas, of whose memory the replica tells. `replica` may be
// null: it is not loaded.
void AddState(const Replica* replica, ReplicaState state, ModelStats& stats);

}  // namespace beamline
