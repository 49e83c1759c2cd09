// How often threads of this process have sent by a socket: sendmsg is the test's own, for gRPC's
// library too.
#pragma once

namespace beamline {

int SendsOfThisThread();
// Of all threads.
int SendsOfAllThreads();

}  // namespace beamline
