// A server on a free loopback port, over an engine that the test drives.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <utility>

#include "client/client.h"
#include "server/server.h"
#include "tests/server/fake_engine.h"

namespace beamline {

class ServiceTest : public testing::Test {
 protected:
  void Serve(ServerConfig config = {}) {
    config.listen = "127.0.0.1:0";
    config.metrics_listen = "off";
    metrics_ = std::make_shared<Metrics>(std::vector<ModelOptions>{});
    auto engine = std::make_unique<FakeEngine>();
    engine_ = engine.get();
    auto server = Server::Start(config, metrics_, std::move(engine), [this] { ++faults_; });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<Client>(ClientOptions{.address = server_->address()});
  }

  static v1::GenerateRequest Request() {
    v1::GenerateRequest request;
    request.mutable_prompt()->set_text("p");
    return request;
  }

  std::shared_ptr<Metrics> metrics_;
  std::unique_ptr<Server> server_;
  FakeEngine* engine_ = nullptr;
  std::atomic<int> faults_ = 0;  // that the server has told of
  std::unique_ptr<Client> client_;
};

inline constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(20)};

}  // namespace beamline
