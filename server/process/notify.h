// Notifies systemd of the server's state, by the protocol of sd_notify(3), which is small and
// fixed.
#pragma once

#include <string_view>

namespace beamline {

// Sends "READY=1", "STATUS=..." or several such lines to $NOTIFY_SOCKET. Returns false if that is
// set and sending fails. Does nothing if it is not set (no systemd).
bool Notify(std::string_view state);

}  // namespace beamline
