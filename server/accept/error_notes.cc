#include "server/accept/error_notes.h"

#include <dlfcn.h>
#include <grpcpp/version_info.h>

#include <atomic>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/check.h"
#include "grpc/status.h"
#include "server/accept/grpc_types.h"

namespace beamline {
namespace {

std::atomic<bool> spares_notes{false};

// gRPC's own function of the name that `own` has here, which tells abseil's version too.
template <typename Function>
Function* NextOf(Function* own) {
  Dl_info info = {};
  dladdr(reinterpret_cast<const void*>(own), &info);
  void* const next = info.dli_sname == nullptr ? nullptr : dlsym(RTLD_NEXT, info.dli_sname);
  BEAMLINE_CHECK(next != nullptr);  // it is called by that name, from gRPC
  return reinterpret_cast<Function*>(next);
}

}  // namespace

void SpareErrorNotes() { spares_notes.store(true, std::memory_order_relaxed); }

}  // namespace beamline

// In place of gRPC's own, as those of send_joining.cc.
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR == 51
#define BEAMLINE_IN_PLACE __attribute__((visibility("default"), weak))

// Without a place for the text none is written: `error_string` stays null, as it is without an
// error.
BEAMLINE_IN_PLACE void grpc_error_get_status(absl::Status error, grpc_core::Timestamp deadline,
                                             grpc_status_code* code, std::string* message,
                                             grpc_http2_error_code* http_error,
                                             const char** error_string) {
  static auto* const get = beamline::NextOf(&grpc_error_get_status);
  if (beamline::spares_notes.load(std::memory_order_relaxed)) error_string = nullptr;
  get(std::move(error), deadline, code, message, http_error, error_string);
}

namespace grpc_core {

enum class StatusTimeProperty;

BEAMLINE_IN_PLACE void StatusSetTime(absl::Status* status, StatusTimeProperty key,
                                     absl::Time time) {
  static auto* const set = beamline::NextOf(&StatusSetTime);
  if (!beamline::spares_notes.load(std::memory_order_relaxed)) set(status, key, time);
}

}  // namespace grpc_core
#endif
