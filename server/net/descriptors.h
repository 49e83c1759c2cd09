// The process's file descriptors: every connection is one, and a server without a free one accepts
// nobody.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace beamline {

// Raises the soft limit of open files to the hard one, at most to a million. Many systems start
// programs with 1,024, for the sake of select(), which this program does not use.
void RaiseDescriptorLimit();

// How many this process has open.
int64_t CountOpenDescriptors();

// How many connections a listener beside those that answer requests may have open at once: few, and
// fewer where few files may be open. Of all addresses, and of one.
int32_t SidePlaces();
int32_t SidePlacesOfPeer();

// How many connections each of `num_listeners` may have open at once: `wanted`, or an equal share
// of what the limit of open files leaves beside those that are open now, the places of
// `num_side_listeners`, and a reserve for what else the process opens while it serves. UNAVAILABLE
// when it leaves none.
absl::StatusOr<int32_t> ConnectionsThatFit(int32_t wanted, int32_t num_listeners = 1,
                                           int32_t num_side_listeners = 0);

}  // namespace beamline
