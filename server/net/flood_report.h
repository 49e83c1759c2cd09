// Tells of connections that end because their clients flood them: in the metrics and the log.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "server/guard/connection_flood.h"
#include "server/net/connection_stats.h"
#include "server/net/rare_error.h"

namespace beamline {

// Held by a std::shared_ptr, which connections share. Any thread.
class FloodReport : public std::enable_shared_from_this<FloodReport> {
 public:
  explicit FloodReport(ConnectionStats& stats) : stats_(&stats) {}

  // What the connection of `fd` tells its floods. The peer's address is read now.
  ConnectionFlood::OnFlood Of(int fd);
  // Connections may outlive what counts them: nothing is told from now on.
  void Close();

 private:
  void Tell(const std::string& address, std::string_view what);

  std::mutex mutex_;
  ConnectionStats* stats_;  // null: closed. Guarded by mutex_
  RareError log_;           // guarded by mutex_
};

}  // namespace beamline
