// A server on a free loopback port, over an engine that the test drives.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "prometheus/metric_family.h"
#include "server/process/server.h"
#include "tests/server/fake_engine.h"

namespace beamline {

class ServiceTest : public testing::Test {
 protected:
  // counted: the models that metrics know, else all are "none".
  void Serve(ServerConfig config = {}, const std::vector<ModelOptions>& counted = {}) {
    config.listen = "127.0.0.1:0";
    config.metrics_listen = "off";
    if (config.http_listen == kAutoHttp) config.http_listen = "off";
    metrics_ = std::make_shared<Metrics>(counted);
    auto engine = std::make_unique<FakeEngine>();
    engine_ = engine.get();
    auto server = Server::Start(config, metrics_, std::move(engine), [this] { ++faults_; });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    client_ = std::make_unique<Client>(ClientOptions{.address = server_->address()});
  }

  // The value of a counter's sample with these labels, "a=1 b=2"; 0 when there is none.
  double Counter(const std::string& name, const std::string& labels) const {
    for (const auto& family : metrics_->Collect()) {
      if (family.name != name) continue;
      for (const auto& metric : family.metric) {
        std::string key;
        for (const auto& label : metric.label) {
          key += (key.empty() ? "" : " ") + label.name + "=" + label.value;
        }
        if (key == labels) return metric.counter.value + metric.gauge.value;  // one is 0
      }
    }
    return 0;
  }
  // Waits for it: a call is counted after its status is on its way.
  bool CounterReaches(const std::string& name, const std::string& labels, double value) const {
    for (int i = 0; i < 2000 && Counter(name, labels) < value; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return Counter(name, labels) == value;
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
