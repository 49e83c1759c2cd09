#include "server/logging.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "server/log_format.h"
#include "server/log_sink.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

// Replaces control characters: a library's message may have several lines.
void LogLine(const char* library, std::string message) {
  std::replace_if(
      message.begin(), message.end(), [](unsigned char c) { return c < ' ' || c == 127; }, ' ');
  spdlog::debug("{}: {}", library, message);
}

}  // namespace

void SetUpLogging() {
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("beamline-server", CrashProofLogSink(STDERR_FILENO)));
  spdlog::set_formatter(MakeLogFormatter(/*json=*/false));
  gpr_set_log_function([](gpr_log_func_args* args) { LogLine("grpc", args->message); });
  google::protobuf::SetLogHandler([](google::protobuf::LogLevel, const char*, int,
                                     const std::string& message) { LogLine("protobuf", message); });
}

void FlushLog() { spdlog::default_logger_raw()->flush(); }

void SetLogLevel(const std::string& level) { spdlog::set_level(spdlog::level::from_str(level)); }

void SetLogFormat(const std::string& format) {
  spdlog::set_formatter(MakeLogFormatter(format == "json"));
}

}  // namespace beamline
