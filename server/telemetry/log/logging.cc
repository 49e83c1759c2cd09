#include "server/telemetry/log/logging.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "grpc/support/log.h"
#include "grpcpp/version_info.h"
#include "server/telemetry/log/log_format.h"
#include "server/telemetry/log/log_sink.h"
#include "spdlog/spdlog.h"

// Newer versions of the two log by abseil, to standard error.
#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"
#define BEAMLINE_PROTOBUF_HAS_LOG_HANDLER
#endif
#if GRPC_CPP_VERSION_MAJOR == 1 && GRPC_CPP_VERSION_MINOR < 65
#define BEAMLINE_GRPC_HAS_LOG_FUNCTION
#endif

namespace beamline {
namespace {

// Messages of libraries may have several lines.
[[maybe_unused]] void LogLine(const char* library, std::string message) {
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  spdlog::debug("{}: {}", library, message);
}

}  // namespace

void SetUpLogging() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("beamline-server", CrashProofLogSink(STDERR_FILENO)));
  spdlog::set_formatter(MakeLogFormatter(/*json=*/false));
#ifdef BEAMLINE_GRPC_HAS_LOG_FUNCTION
  gpr_set_log_function([](gpr_log_func_args* args) { LogLine("grpc", args->message); });
#endif
#ifdef BEAMLINE_PROTOBUF_HAS_LOG_HANDLER
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*, int,
                                     const std::string& message) { LogLine("protobuf", message); });
#endif
}

void FlushLog() { spdlog::default_logger_raw()->flush(); }

void SetLogLevel(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

void SetLogFormat(const std::string& format) {
  spdlog::set_formatter(MakeLogFormatter(format == "json"));
}

}  // namespace beamline
