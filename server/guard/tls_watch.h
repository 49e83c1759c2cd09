// Follows what clients of gRPC's connections send in TLS, as receive_watch.h does in plain text.
//
// gRPC decrypts what it has received by OpenSSL's SSL_read. This program has one of its own, which
// gRPC's library finds in place of OpenSSL's: it reads as that does, and looks at what has come
// where a server speaks HTTP/2. gRPC is told that a connection is broken whose client floods it.
#pragma once

#include <memory>

#include "server/guard/connection_flood.h"

namespace beamline {

// An unfinished handshake. It goes when it is finished or its connection ends.
class TlsHandshake {
 public:
  virtual ~TlsHandshake() = default;
  // Before it goes: the client has done its part. One that goes without was given up.
  virtual void SetFinished() = 0;
};

// What a connection in TLS brings with it.
struct TlsArrival {
  std::shared_ptr<ConnectionFlood> flood;   // counts what its client sends
  std::unique_ptr<TlsHandshake> handshake;  // null: its handshake is not followed
};

// While it lives, the connection that OpenSSL makes on this thread is this one: gRPC makes it while
// it is handed the socket. It is watched from then on. One at a time on a thread.
class TlsHandOver {
 public:
  explicit TlsHandOver(TlsArrival arrival);
  ~TlsHandOver();
  TlsHandOver(const TlsHandOver&) = delete;
  TlsHandOver& operator=(const TlsHandOver&) = delete;

  // Takes what this thread hands over, once. Without a flood: there is nothing. For what does not
  // speak HTTP/2; OpenSSL's connections of gRPC take theirs by themselves.
  static TlsArrival Claim();

 private:
  TlsArrival arrival_;
};

}  // namespace beamline
