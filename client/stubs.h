// The stubs of a client's connection. Internal to the client.
#pragma once

#include <memory>

#include "beamline/v1/inference.grpc.pb.h"
#include "beamline/v1/models.grpc.pb.h"
#include "client/client.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

struct Client::Stubs {
  explicit Stubs(const std::shared_ptr<grpc::Channel>& channel)
      : inference(channel), models(channel), health(channel) {}

  v1::Inference::Stub inference;
  v1::Models::Stub models;
  grpc::health::v1::Health::Stub health;
};

}  // namespace beamline
