#include "server/accept/send_joining.h"

#include <dlfcn.h>

#include <atomic>

#include "base/send_batch.h"
#include "server/accept/grpc_types.h"

namespace beamline {
namespace {

std::atomic<bool> joins{false};

// Null: the thread sends nothing that is to be joined.
SendBatch* BatchToJoin() {
  SendBatch* const batch = SendBatch::OfThisThread();
  return batch != nullptr && joins.load(std::memory_order_relaxed) ? batch : nullptr;
}

}  // namespace

void JoinSends() { joins.store(true, std::memory_order_relaxed); }

}  // namespace beamline

// In place of gRPC's own, for its library. A version without one of them never calls it here, nor
// does one that is part of this program, whose own ones are not weak, or that binds its calls
// itself: then answers leave one by one.
#define BEAMLINE_IN_PLACE __attribute__((visibility("default"), weak))
enum grpc_chttp2_initiate_write_reason : int;

// gRPC has put something into a connection's buffers, holds the connection, and will send them when
// nothing else waits for it. What is answered here, by the same connection, waits for it.
BEAMLINE_IN_PLACE void grpc_chttp2_initiate_write(grpc_chttp2_transport* transport,
                                                  grpc_chttp2_initiate_write_reason reason) {
  using Initiate = void (*)(grpc_chttp2_transport*, grpc_chttp2_initiate_write_reason);
  static const auto initiate =
      reinterpret_cast<Initiate>(dlsym(RTLD_NEXT,
                                       "_Z26grpc_chttp2_initiate_writeP21grpc_chttp2_transport"
                                       "33grpc_chttp2_initiate_write_reason"));
  initiate(transport, reason);
  if (auto* const batch = beamline::BatchToJoin(); batch != nullptr) batch->RunRest();
}

// Whether the thread is one that gRPC may keep for as long as a connection has work. From others it
// takes a connection that somebody waits for, and wakes a thread of its executor to go on with it.
BEAMLINE_IN_PLACE bool grpc_iomgr_platform_is_any_background_poller_thread() {
  using Is = bool (*)();
  static const auto is = reinterpret_cast<Is>(
      dlsym(RTLD_NEXT, "_Z51grpc_iomgr_platform_is_any_background_poller_threadv"));
  return beamline::BatchToJoin() != nullptr || is();
}
