// The limits of an HTTP listener.
#pragma once

#include <chrono>
#include <cstddef>

namespace beamline {

struct HttpOptions {
  size_t max_head_bytes = 16 << 10;  // of a request line, of the headers, of a chunk-size line
  size_t max_body_bytes = 4 << 20;   // of one request
  // Of all requests together, from their first byte until they are answered. One client gets at
  // most half.
  size_t max_bodies_bytes = size_t{256} << 20;
  std::chrono::milliseconds head_time{20000};   // for a head; for a TLS handshake
  std::chrono::milliseconds body_time{60000};   // for a body
  std::chrono::milliseconds write_time{60000};  // for a slow client to read anything at all
  // Limit for an answer or a piece: write_time plus its bytes / least_bytes_per_second.
  size_t least_bytes_per_second = 256 << 10;
  std::chrono::milliseconds idle_time{600000};  // between requests; 0: no limit
  // A connection may be closed for a new one while its client still reads an answer. If false, only
  // when it owes no answer.
  bool gives_place_unread = false;
  std::chrono::milliseconds age{0};  // then the connection closes after its answer; 0: never
};

}  // namespace beamline
