#include "server/process/loading_mark.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <optional>

#include "fmt/format.h"
#include "server/config/server_config.h"

namespace beamline {
namespace {

struct MarkName {
  sockaddr_un address = {};
  socklen_t size = 0;
};

// In Linux's abstract namespace: the name disappears with the process, and needs no writable
// folder.
std::optional<MarkName> MarkNameOf(const std::string& address) {
  const auto parsed = ParseHostPort("listen", address);
  if (!parsed.ok() || parsed->port == 0) return std::nullopt;
  const std::string text = fmt::format("beamline-server-loads-for-{}", parsed->port);
  MarkName name;
  name.address.sun_family = AF_UNIX;
  std::ranges::copy(text, name.address.sun_path + 1);
  name.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return name;
}

int OpenMarkSocket() { return socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0); }

}  // namespace

LoadingMark::LoadingMark(const std::string& address) {
  const std::optional<MarkName> name = MarkNameOf(address);
  if (!name.has_value()) return;
  socket_ = OpenMarkSocket();
  if (socket_ < 0) return;
  const auto* const there = reinterpret_cast<const sockaddr*>(&name->address);
  if (bind(socket_, there, name->size) == 0 && listen(socket_, 0) == 0) return;
  close(socket_);
  socket_ = -1;
}

LoadingMark::~LoadingMark() {
  if (socket_ >= 0) close(socket_);
}

bool IsLoading(const std::string& address) {
  const std::optional<MarkName> name = MarkNameOf(address);
  if (!name.has_value()) return false;
  const int socket = OpenMarkSocket();
  if (socket < 0) return false;
  const auto* const there = reinterpret_cast<const sockaddr*>(&name->address);
  // Nothing accepts connections, so a full queue also proves that the mark exists.
  const bool is_there = connect(socket, there, name->size) == 0 || errno == EAGAIN;
  close(socket);
  return is_there;
}

}  // namespace beamline
