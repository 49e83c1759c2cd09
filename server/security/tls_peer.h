// Who is at the other end of a connection of OpenSSL's.
#pragma once

#include <string>

struct ssl_st;

namespace beamline {

// The common name of the client certificate's subject, which TLS has checked; empty without one.
std::string PeerSubjectName(ssl_st* connection);

}  // namespace beamline
