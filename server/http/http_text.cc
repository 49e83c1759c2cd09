#include "server/http/http_text.h"

#include <algorithm>
#include <array>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "fmt/format.h"

namespace beamline {
namespace {

constexpr size_t kMostIdBytes = 256;

constexpr std::array<std::pair<int, std::string_view>, 19> kPhrases = {
    {{200, "OK"},
     {400, "Bad Request"},
     {401, "Unauthorized"},
     {403, "Forbidden"},
     {404, "Not Found"},
     {405, "Method Not Allowed"},
     {408, "Request Timeout"},
     {409, "Conflict"},
     {413, "Content Too Large"},
     {415, "Unsupported Media Type"},
     {417, "Expectation Failed"},
     {422, "Unprocessable Content"},
     {429, "Too Many Requests"},
     {431, "Request Header Fields Too Large"},
     {499, "Client Closed Request"},
     {500, "Internal Server Error"},
     {501, "Not Implemented"},
     {503, "Service Unavailable"},
     {504, "Gateway Timeout"}}};

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

}  // namespace

std::string_view ReasonPhrase(int status) {
  const auto found = std::ranges::find(kPhrases, status, [](const auto& row) { return row.first; });
  return found == kPhrases.end() ? "Error" : found->second;
}

std::string PathOf(std::string_view target) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(absl::string_view(target.data(), target.size()),
                                    absl::string_view(scheme.data(), scheme.size()))) {
      continue;
    }
    const size_t path = target.find('/', scheme.size());
    target = path == std::string_view::npos ? "/" : target.substr(path);
    break;
  }
  return std::string(target.substr(0, target.find_first_of("?#")));
}

std::string Unescape(std::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const int high = i + 2 < text.size() && text[i] == '%' ? HexDigit(text[i + 1]) : -1;
    const int low = high < 0 ? -1 : HexDigit(text[i + 2]);
    if (low < 0) {
      result += text[i];
    } else {
      result += static_cast<char>(16 * high + low);
      i += 2;
    }
  }
  return result;
}

bool IsSameWord(std::string_view text, std::string_view word) {
  return absl::EqualsIgnoreCase(absl::string_view(text.data(), text.size()),
                                absl::string_view(word.data(), word.size()));
}

std::string UsableRequestId(std::string_view given) {
  const bool is_usable = !given.empty() && given.size() <= kMostIdBytes &&
                         std::ranges::all_of(given, [](char c) { return c > ' ' && c <= '~'; });
  if (is_usable) return std::string(given);
  thread_local std::mt19937_64 random{(uint64_t{std::random_device()()} << 32) |
                                      std::random_device()()};
  return fmt::format("{:016x}{:016x}", random(), random());
}

std::string HostText(std::string_view address, bool is_v6) {
  constexpr std::string_view kMapped = "::ffff:";  // an IPv4 client of an IPv6 socket
  if (is_v6 && address.starts_with(kMapped) && address.find('.') != std::string_view::npos) {
    return fmt::format("ipv4:{}", address.substr(kMapped.size()));
  }
  return is_v6 ? fmt::format("ipv6:%5B{}%5D", address) : fmt::format("ipv4:{}", address);
}

}  // namespace beamline
