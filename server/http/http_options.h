// The limits of an HTTP listener.
#pragma once

#include <chrono>
#include <cstddef>

namespace beamline {

struct HttpOptions {
  size_t max_head_bytes = 16 << 10;  // of a request line, of the headers, of a chunk's own line
  size_t max_body_bytes = 4 << 20;   // of one request
  // Of the requests of all connections, from their first byte until they are answered. Half of it
  // of one client.
  size_t max_bodies_bytes = size_t{256} << 20;
  std::chrono::milliseconds head_time{
      20000};  // from a head's first byte to its last; a handshake's
  std::chrono::milliseconds body_time{60000};   // the same of a body
  std::chrono::milliseconds write_time{60000};  // for a slow reader to take anything at all
  // It has that time, and the time of its bytes at so many a second, for an answer or a piece.
  size_t least_bytes_per_second = 256 << 10;
  std::chrono::milliseconds idle_time{600000};  // between requests; 0: for ever
  // Whether a connection gives its place to a new one while its client has an answer still to read;
  // otherwise only where none is owed.
  bool gives_place_unread = false;
  std::chrono::milliseconds age{0};  // after which a connection ends with its answer; 0: never
};

}  // namespace beamline
