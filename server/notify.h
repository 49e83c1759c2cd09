// Tells systemd how the server does, by the protocol of sd_notify(3), which is small and fixed.
#pragma once

#include <string_view>

namespace beamline {

// Sends "READY=1", "STATUS=..." or several of these on lines of their own to $NOTIFY_SOCKET. False
// when that is set and nobody can be told there; where nobody asks, as without systemd, nothing is
// done.
bool Notify(std::string_view state);

}  // namespace beamline
