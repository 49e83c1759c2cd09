#include "server/net/http_farewell.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "fmt/format.h"

namespace beamline {
namespace {

// Takes what the client has sent, up to some bytes, so that the socket's end does not reset it.
void TakeRest(int fd) {
  constexpr int kMostReads = 16;
  std::array<char, 4096> bytes;
  for (int i = 0; i < kMostReads; ++i) {
    if (recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT) <= 0) return;
  }
}

}  // namespace

bool IsPlainHttp(std::string_view begin) {
  constexpr std::array<std::string_view, 7> kMethods = {"GET ",    "HEAD ",  "POST ",   "PUT ",
                                                        "DELETE ", "PATCH ", "OPTIONS "};
  return std::ranges::any_of(
      kMethods, [begin](std::string_view method) { return begin.starts_with(method); });
}

HttpFarewell::HttpFarewell(std::string_view line)
    : answer_(fmt::format("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n"
                          "Content-Length: {}\r\nConnection: close\r\n\r\n{}\n",
                          line.size() + 1, line)) {}

void HttpFarewell::Answer(UniqueFd fd, TimePoint now) {
  // A new connection's buffer takes it all.
  send(fd.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  shutdown(fd.get(), SHUT_WR);
  if (leaving_.size() == kMost) CloseOldest();
  leaving_.push_back({std::move(fd), now + kStay});
}

std::optional<HttpFarewell::TimePoint> HttpFarewell::NextDeadline() const {
  return leaving_.empty() ? std::nullopt : std::optional(leaving_.front().deadline);
}

void HttpFarewell::CloseOverdue(TimePoint now) {
  while (!leaving_.empty() && leaving_.front().deadline <= now) CloseOldest();
}

void HttpFarewell::CloseOldest() {
  TakeRest(leaving_.front().fd.get());
  leaving_.pop_front();
}

}  // namespace beamline
