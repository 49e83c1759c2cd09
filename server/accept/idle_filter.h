// Makes gRPC's closing of idle connections cheap. Its filter "max_age" needs the number of a
// connection's calls and nothing else of them, but follows each as filters do that change what a
// call sends: some 5,000 instructions and 368 bytes a call (docs/decisions/0054-counted-calls.md).
#pragma once

namespace beamline {

// Connections of servers that are built from now on have their calls counted, and no more, where
// they are closed when idle or old; when that is stays gRPC's business. False where gRPC is not the
// one that this is known of, and stays as it is. Before this process builds its first server; any
// number of times.
bool ThinIdleFilter();

}  // namespace beamline
