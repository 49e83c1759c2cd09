// Spares the waking of gRPC's pollers for what a poller itself comes to next. Whoever puts
// something into an empty queue of gRPC's wakes a poller that sleeps, and what a lent thread
// (base/lent_thread.h) answers puts the ends of its calls there: but it is a poller of that queue
// itself, and looks there when it has answered. One that is woken for them finds few of them left,
// and both wait for each other's lock meanwhile. Nor does it wake others behind such work, until it
// polls or lends itself again (docs/decisions/0052-bursts.md).
#pragma once

namespace beamline {

// From now on, and for good.
void SpareKicks();

}  // namespace beamline
