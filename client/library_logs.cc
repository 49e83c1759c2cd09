#include "client/library_logs.h"

#include <cstdlib>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"

namespace beamline {

void DropLibraryLogs() {
  google::protobuf::SetLogHandler(nullptr);
  if (std::getenv("GRPC_VERBOSITY") == nullptr) gpr_set_log_function([](gpr_log_func_args*) {});
}

}  // namespace beamline
