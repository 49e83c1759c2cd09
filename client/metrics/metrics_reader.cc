#include "client/metrics/metrics_reader.h"

#include <curl/curl.h>

#include <utility>
#include <vector>

#include "base/text.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr size_t kMaxBodyBytes = size_t{16} << 20;
constexpr int kMomentMs = 1000;  // libcurl's own timeouts end a wait earlier

size_t Append(char* data, size_t size, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + size * count > kMaxBodyBytes) return 0;  // libcurl ends the transfer
  text.append(data, size * count);
  return size * count;
}

}  // namespace

std::string_view HostOfUrl(std::string_view url) {
  url.remove_prefix(url.find("://") + 3);
  return url.substr(0, url.find_first_of("/?#"));
}

namespace {

// Whether libcurl accepts the URL: checked once here, because libcurl would report the error at
// each read. Examples: a port that is not a number, or an invalid host.
bool IsReadable(const std::string& url) {
  CURLU* const parts = curl_url();
  if (parts == nullptr) return true;  // out of memory; the read will report it
  char* port = nullptr;
  const bool is_readable =
      curl_url_set(parts, CURLUPART_URL, url.c_str(), 0) == CURLUE_OK &&
      curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) == CURLUE_OK &&
      std::string_view(port) != "0";
  curl_free(port);
  curl_url_cleanup(parts);
  return is_readable;
}

}  // namespace

absl::Status CheckHttpUrl(std::string_view what, const std::string& url) {
  const bool is_http = url.starts_with("http://") || url.starts_with("https://");
  // With '@' the apparent host would be a user name.
  if (is_http && IsPlainText(url) && !HostOfUrl(url).empty() &&
      url.find_first_of("@ \\") == std::string::npos && IsReadable(url)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is '{}'; accepted: http://HOST:PORT/PATH", what, Shorten(url)));
}

class MetricsReader::Transfer {
 public:
  Transfer(const std::string& url, std::chrono::milliseconds timeout) {
    static const CURLcode initialized = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (initialized != CURLE_OK) return;
    multi_ = curl_multi_init();
    curl_ = curl_easy_init();
    if (curl_ == nullptr) return;
    curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
    curl_easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(curl_, CURLOPT_PROXY, "");  // connect directly, ignore the environment's proxy
    curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);  // required with threads
    curl_easy_setopt(curl_, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(curl_, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout.count()));
    curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, error_);
    curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, &Append);
    curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &body_);
  }
  ~Transfer() {
    curl_easy_cleanup(curl_);
    curl_multi_cleanup(multi_);
  }
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  absl::StatusOr<std::string> Read(std::span<const int> wake) {
    if (curl_ == nullptr || multi_ == nullptr) {
      return absl::InternalError("libcurl cannot be used");
    }
    body_.clear();
    error_[0] = '\0';
    curl_multi_add_handle(multi_, curl_);
    const absl::Status status = Run(wake);
    curl_multi_remove_handle(multi_, curl_);
    if (!status.ok()) return status;
    return std::move(body_);
  }

 private:
  absl::Status Run(std::span<const int> wake) {
    std::vector<curl_waitfd> others;
    for (const int fd : wake) others.push_back({fd, CURL_WAIT_POLLIN, 0});
    for (int running = 1; running > 0;) {
      const CURLMcode code = curl_multi_perform(multi_, &running);
      if (code != CURLM_OK) return absl::InternalError(curl_multi_strerror(code));
      if (running == 0) break;
      curl_multi_poll(multi_, others.data(), static_cast<unsigned>(others.size()), kMomentMs,
                      nullptr);
      for (const curl_waitfd& other : others) {
        if (other.revents != 0) return absl::CancelledError("other work came");
      }
    }
    int left = 0;
    const CURLMsg* const message = curl_multi_info_read(multi_, &left);
    const CURLcode code = message == nullptr ? CURLE_RECV_ERROR : message->data.result;
    if (code == CURLE_OK) return absl::OkStatus();
    return absl::UnavailableError(error_[0] != '\0' ? error_ : curl_easy_strerror(code));
  }

  CURLM* multi_ = nullptr;
  CURL* curl_ = nullptr;
  std::string body_;
  char error_[CURL_ERROR_SIZE] = {};
};

MetricsReader::MetricsReader(const std::string& url, std::chrono::milliseconds timeout)
    : transfer_(std::make_unique<Transfer>(url, timeout)) {}

MetricsReader::~MetricsReader() = default;

absl::StatusOr<std::string> MetricsReader::Read(std::span<const int> wake) {
  return transfer_->Read(wake);
}

}  // namespace beamline
