// The lines that a test's server logs.
#pragma once

#include <memory>
#include <string>

#include "spdlog/sinks/ringbuffer_sink.h"
#include "spdlog/spdlog.h"

namespace beamline {

// What is logged while it lives.
class LogCapture {
 public:
  explicit LogCapture(spdlog::level::level_enum level) : before_(spdlog::default_logger()) {
    auto logger = std::make_shared<spdlog::logger>("test", lines_);
    logger->set_pattern("%l %v");
    logger->set_level(level);
    spdlog::set_default_logger(std::move(logger));
  }
  ~LogCapture() { spdlog::set_default_logger(before_); }

  std::string text() const {
    std::string text;
    for (const std::string& line : lines_->last_formatted()) text += line;
    return text;
  }

 private:
  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<spdlog::sinks::ringbuffer_sink_mt> lines_ =
      std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(1000);
};

}  // namespace beamline
