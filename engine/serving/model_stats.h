// The numbers of a model, put together from those of its replicas.
#pragma once

#include <cstdint>

#include "engine/api/model.h"
#include "engine/serving/replica.h"

namespace beamline {

// What only grows: of replicas that there are no more, these stay.
void AddCounters(const Replica& replica, ModelStats& stats);
// The rest, with an entry among stats.replicas. `number`: among the replicas of its version.
void AddState(const Replica& replica, int32_t number, ModelStats& stats);

}  // namespace beamline
