#include "server/health_check.h"

#include "absl/status/status.h"
#include "fmt/format.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace beamline {

absl::StatusOr<bool> AskHealth(const std::string& address, std::chrono::milliseconds timeout) {
  grpc::ChannelArguments arguments;
  // The server is asked itself, whatever proxy the environment names for the rest of the world.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto channel =
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + timeout);
  grpc::health::v1::HealthCheckResponse response;
  const grpc::Status status = grpc::health::v1::Health::NewStub(channel)->Check(
      &context, grpc::health::v1::HealthCheckRequest(), &response);
  if (!status.ok()) {
    const auto code = static_cast<absl::StatusCode>(status.error_code());
    return absl::Status(code, fmt::format("no health from {}: {}: {}", address,
                                          absl::StatusCodeToString(code), status.error_message()));
  }
  return response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
}

}  // namespace beamline
