// Reads a server's /metrics over HTTP.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace beamline {

// InvalidArgument "WHAT is 'URL'; accepted: ..." for what is no http URL of a host.
absl::Status CheckHttpUrl(std::string_view what, const std::string& url);
// "127.0.0.1:50052" of such an URL.
std::string_view HostOfUrl(std::string_view url);

// The connection is kept open from one reading to the next. One thread at a time.
class MetricsReader {
 public:
  explicit MetricsReader(const std::string& url,
                         std::chrono::milliseconds timeout = std::chrono::seconds(2));
  ~MetricsReader();
  MetricsReader(const MetricsReader&) = delete;
  MetricsReader& operator=(const MetricsReader&) = delete;

  // The text that the server answers with. UNAVAILABLE when there is none within the timeout;
  // CANCELLED as soon as one of the descriptors `wake` can be read.
  absl::StatusOr<std::string> Read(std::span<const int> wake = {});

 private:
  class Transfer;  // of libcurl

  std::unique_ptr<Transfer> transfer_;
};

}  // namespace beamline
