#include "server/net/flood_report.h"

#include <sys/socket.h>

#include "fmt/format.h"
#include "server/net/peer_address.h"

namespace beamline {

ConnectionFlood::OnFlood FloodReport::Of(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
  return [report = shared_from_this(), address = AddressText(address)](std::string_view what) {
    report->Tell(address, what);
  };
}

void FloodReport::Close() {
  std::lock_guard lock(mutex_);
  stats_ = nullptr;
}

void FloodReport::Tell(const std::string& address, std::string_view what) {
  std::lock_guard lock(mutex_);
  if (stats_ == nullptr) return;
  stats_->Count(Refusal::kFlood);
  log_.Log(fmt::format("ended a connection of {}: its client floods it with {}", address, what));
}

}  // namespace beamline
