// Keeps load tests on this machine unless the user allows remote servers.
#pragma once

#include <string_view>

namespace beamline::loadtest {

// True for "localhost", 127.0.0.0/8, ::1 and Unix sockets, as gRPC targets ("127.0.0.1:50051",
// "[::1]:50051", "unix:/run/beamline.sock").
bool IsLoopback(std::string_view target);

}  // namespace beamline::loadtest
