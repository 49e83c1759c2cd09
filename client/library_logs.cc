#include "client/library_logs.h"

#include <cstdlib>

#include "grpc/support/log.h"
#include "grpcpp/version_info.h"

// Newer versions of the two log by abseil, to standard error.
#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"
#define BEAMLINE_PROTOBUF_HAS_LOG_HANDLER
#endif
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
#define BEAMLINE_GRPC_HAS_LOG_FUNCTION
#endif

namespace beamline {

void DropLibraryLogs() {
#ifdef BEAMLINE_PROTOBUF_HAS_LOG_HANDLER
  google::protobuf::SetLogHandler(nullptr);
#endif
#ifdef BEAMLINE_GRPC_HAS_LOG_FUNCTION
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
#endif
}

}  // namespace beamline
