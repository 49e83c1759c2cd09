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

// INVALID_ARGUMENT "WHAT is 'URL'; accepted: ..." unless it is an http(s) URL with a host.
absl::Status CheckHttpUrl(std::string_view what, const std::string& url);
// "127.0.0.1:50052" of such a URL.
std::string_view HostOfUrl(std::string_view url);

// Keeps the connection open between reads. Not thread-safe.
class MetricsReader {
 public:
  explicit MetricsReader(const std::string& url,
                         std::chrono::milliseconds timeout = std::chrono::seconds(2));
  ~MetricsReader();
  MetricsReader(const MetricsReader&) = delete;
  MetricsReader& operator=(const MetricsReader&) = delete;

  // The body of the server's response. UNAVAILABLE if there is none within the timeout; CANCELLED
  // as soon as one of the `wake` descriptors is readable.
  absl::StatusOr<std::string> Read(std::span<const int> wake = {});

 private:
  class Transfer;  // of libcurl

  std::unique_ptr<Transfer> transfer_;
};

}  // namespace beamline
