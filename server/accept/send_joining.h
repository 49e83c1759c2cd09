// Has the threads of this program that answer several calls at once send them together: what they
// send while they have a SendBatch (base/send_batch.h) waits for its end. gRPC, which sends each
// answer as soon as it gets it, offers nothing for that (docs/decisions/0052-bursts.md).
#pragma once

namespace beamline {

// From now on, and for good.
void JoinSends();

}  // namespace beamline
