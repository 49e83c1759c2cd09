#include "loadtest/traffic/connections.h"

#include <utility>

#include "client/channel.h"
#include "fmt/format.h"
#include "loadtest/traffic/call.h"

namespace beamline::loadtest {
namespace {

constexpr std::chrono::seconds kConnectTimeout{10};

void RunEvents(grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) static_cast<EventHandler*>(tag)->OnEvent(ok);
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const Target& target,
                                                       std::chrono::milliseconds timeout) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL,
                   1);                     // otherwise channels would share a connection
  arguments.SetMaxReceiveMessageSize(-1);  // embeddings of long texts exceed the default of 4 MiB
  auto channel = OpenChannel(target.address, target.tls, target.token, std::move(arguments));
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + timeout)) {
    return absl::UnavailableError(fmt::format("no server answers at {}{}", target.address,
                                              target.tls.has_value() ? " with TLS" : ""));
  }
  return channel;
}

absl::StatusOr<std::unique_ptr<Connections>> Connections::Open(const Target& target,
                                                               int num_connections,
                                                               int num_threads) {
  std::unique_ptr<Connections> connections(new Connections);
  for (int i = 0; i < num_connections; ++i) {
    auto channel = Connect(target, kConnectTimeout);
    if (!channel.ok()) return channel.status();
    connections->stubs_.push_back(v1::Inference::NewStub(*std::move(channel)));
  }
  for (int i = 0; i < num_threads; ++i) {
    grpc::CompletionQueue& queue =
        *connections->queues_.emplace_back(std::make_unique<grpc::CompletionQueue>());
    connections->threads_.emplace_back([&queue] { RunEvents(queue); });
  }
  return connections;
}

Connections::~Connections() {
  for (const auto& queue : queues_) queue->Shutdown();
  for (std::thread& thread : threads_) thread.join();
}

Connections::Lane Connections::Next() {
  const size_t turn = num_given_++;
  return {stubs_[turn % stubs_.size()].get(), queues_[turn % queues_.size()].get()};
}

}  // namespace beamline::loadtest
