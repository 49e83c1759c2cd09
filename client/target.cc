#include "client/target.h"

#include <charconv>
#include <system_error>

namespace beamline {
namespace {

bool ConsumePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

bool IsPort(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= 65535;
}

bool IsHost(std::string_view host) {
  if (host.starts_with('[') && host.ends_with(']') && host.size() > 2) {
    return host.find_first_of("[] /", 1) == host.size() - 1;
  }
  return !host.empty() && host.find_first_of(":/[] ") == std::string_view::npos;
}

bool IsHostPort(std::string_view text) {
  const size_t colon = text.rfind(':');
  return colon != std::string_view::npos && IsPort(text.substr(colon + 1)) &&
         IsHost(text.substr(0, colon));
}

bool IsTarget(std::string_view target) {
  for (const std::string_view scheme : {"unix:", "unix-abstract:"}) {
    if (ConsumePrefix(target, scheme)) return !target.empty();
  }
  if (ConsumePrefix(target, "ipv4:") || ConsumePrefix(target, "ipv6:")) {
    while (true) {  // a list
      const size_t comma = target.find(',');
      if (!IsHostPort(target.substr(0, comma))) return false;
      if (comma == std::string_view::npos) return true;
      target.remove_prefix(comma + 1);
    }
  }
  if (ConsumePrefix(target, "dns://")) {
    const size_t slash = target.find('/');  // after the name server, if any
    if (slash == std::string_view::npos) return false;
    target.remove_prefix(slash + 1);
  } else {
    ConsumePrefix(target, "dns:");
  }
  return IsHostPort(target);
}

}  // namespace

absl::Status CheckTarget(std::string_view what, const std::string& target) {
  if (IsTarget(target)) return absl::OkStatus();
  return absl::InvalidArgumentError(std::string(what) + " is '" + target +
                                    "'; accepted: host:port, as 127.0.0.1:50051, or unix:PATH");
}

}  // namespace beamline
