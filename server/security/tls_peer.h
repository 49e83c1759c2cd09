// The peer of an OpenSSL connection.
#pragma once

#include <string>

struct ssl_st;

namespace beamline {

// The common name in the verified client certificate's subject; empty without one.
std::string PeerSubjectName(ssl_st* connection);

}  // namespace beamline
