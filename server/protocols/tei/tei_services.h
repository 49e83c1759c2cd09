// The services of tei.v1 (Hugging Face TEI). They share engine, admission, gate and metrics with
// beamline.v1.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "server/calls/call_state.h"
#include "tei/v1/tei.grpc.pb.h"

namespace beamline {

// Server settings that Info returns.
struct TeiSettings {
  int32_t max_concurrent_requests = 0;
  int32_t tokenizer_threads = 0;
};

// All services of tei.v1.
class TeiServices {
 public:
  TeiServices(ServiceContext& services, TeiSettings settings);

  const std::vector<std::unique_ptr<grpc::Service>>& services() const { return services_; }

 private:
  std::vector<std::unique_ptr<grpc::Service>> services_;
};

}  // namespace beamline
