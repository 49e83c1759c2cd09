// Has the answers that one thread gives to several calls of a connection leave in one message. gRPC
// sends each answer as soon as it gets it, unless another thread has the connection at the moment,
// and offers nothing for that (docs/decisions/0052-bursts.md).
#pragma once

namespace beamline {

// What threads of this program answer within a SendBatch (base/send_batch.h) is joined from now on,
// and for good.
void JoinSends();

}  // namespace beamline
