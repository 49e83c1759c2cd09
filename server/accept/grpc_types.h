// Types of gRPC 1.51's own code, of functions that this program has in place of the library's.
#pragma once

#include <cstdint>

struct grpc_chttp2_transport;
struct grpc_pollset;
struct grpc_pollset_worker;
enum grpc_http2_error_code : unsigned;

namespace grpc_core {

class Timestamp {
  int64_t milliseconds_;
};

}  // namespace grpc_core
