#include "server/calls/message_gate.h"

#include <arpa/inet.h>

#include <chrono>
#include <memory>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "server/calls/failed_call.h"
#include "server/wire/errors.h"

namespace beamline {
namespace {

// Refuses the call, or enters it into the message budget.
template <typename Gate, typename Answer>
grpc::ServerBidiReactor<grpc::ByteBuffer, Answer>* StartGated(ServiceContext& services,
                                                              const MethodAccess& access,
                                                              grpc::CallbackServerContext* context,
                                                              const typename Gate::Method& method) {
  const auto identity = access.is_open ? absl::StatusOr<std::string>("")
                        : access.rpc.has_value()
                            ? Enter(services, *access.rpc, *context, access.right)
                            : Enter(services, ShownIn(*context), access.right);
  if (!identity.ok()) {
    using Failed = FailedCall<grpc::ServerBidiReactor<grpc::ByteBuffer, Answer>>;
    return new Failed(ToGrpcStatus(identity.status()));
  }
  auto* gate = new Gate(*services.messages, context, method);
  gate->EnterBudget(MessageClient(*context, *identity));
  return gate;
}

template <typename Gate, typename Answer>
grpc::internal::MethodHandler* Gated(ServiceContext& services, const MethodAccess& access,
                                     typename Gate::Method method) {
  const auto kept = std::make_shared<const typename Gate::Method>(std::move(method));
  return new grpc::internal::CallbackBidiHandler<grpc::ByteBuffer, Answer>(
      [&services, access, kept](grpc::CallbackServerContext* context) {
        return StartGated<Gate, Answer>(services, access, context, *kept);
      });
}

}  // namespace

std::string MessageClient(const grpc::CallbackServerContext& context, const std::string& identity) {
  if (!identity.empty()) return identity;
  const std::string peer = context.peer();
  if (!peer.starts_with("ip")) return peer;
  const std::string host = peer.substr(0, peer.rfind(':'));
  constexpr std::string_view kBegin = "ipv6:%5B", kEnd = "%5D";
  if (!host.starts_with(kBegin) || !host.ends_with(kEnd)) return host;
  std::string address = host.substr(kBegin.size(), host.size() - kBegin.size() - kEnd.size());
  address = address.substr(0, address.find('%'));  // without the zone
  in6_addr bytes;
  if (inet_pton(AF_INET6, address.c_str(), &bytes) != 1) return host;
  if (IN6_IS_ADDR_V4MAPPED(&bytes)) return address;
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof(bytes) / 2);
}

grpc::Status LateMessage(const MessageBudget& budget, MessageBudget::Late why) {
  const auto seconds = [](std::chrono::milliseconds time) {
    return std::chrono::duration<double>(time).count();
  };
  if (why == MessageBudget::Late::kTooMuch) {
    return ToGrpcStatus(absl::ResourceExhaustedError(fmt::format(
        "the request was not whole while its client had too many such requests; accepted: {} bytes "
        "of them (max_unfinished_bytes), half of it of one client",
        budget.bytes())));
  }
  if (why == MessageBudget::Late::kNotWhole) {
    return ToGrpcStatus(absl::DeadlineExceededError(fmt::format(
        "the request was not whole in time; accepted: {} s, and {} s while many others are not "
        "whole",
        seconds(budget.time()), seconds(budget.extra_time()))));
  }
  return ToGrpcStatus(absl::ResourceExhaustedError(fmt::format(
      "the request found no place for {} s among those that this server is reading; accepted: {} "
      "at once, half of them of one client",
      seconds(budget.time()), budget.num_places())));
}

grpc::internal::MethodHandler* GatedUnary(ServiceContext& services, const MethodAccess& access,
                                          UnaryGate::Method method) {
  return Gated<UnaryGate, grpc::ByteBuffer>(services, access, std::move(method));
}

grpc::internal::MethodHandler* GatedStream(ServiceContext& services, const MethodAccess& access,
                                           StreamGate::Method method) {
  return Gated<StreamGate, grpc::ByteBuffer>(services, access, std::move(method));
}

int MethodIndex(const google::protobuf::FileDescriptor& file, std::string_view service,
                std::string_view method) {
  return file.FindServiceByName(std::string(service))
      ->FindMethodByName(std::string(method))
      ->index();
}

}  // namespace beamline
