// Connections that nobody asked for: the server stays reachable, says when it is not, and recovers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/server/net/raw_connection.h"

namespace beamline::connections_test {
namespace {

using testing::HasSubstr;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(20)};

std::vector<std::string> WithModel(std::vector<std::string> arguments) {
  arguments.insert(arguments.end(),
                   {"--model", "embed-en=" BEAMLINE_SOURCE_DIR "/models/embed-en"});
  return arguments;
}

bool Eventually(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return condition();
}

// On a connection of its own. nullopt: no answer.
std::optional<bool> Health(const ServerProcess& server) {
  Client client({.address = server.address()});
  const auto health = client.Health("", {.timeout = std::chrono::seconds(5)});
  return health.ok() ? std::optional<bool>(*health) : std::nullopt;
}

absl::Status Encode(Client& client) {
  v1::EncodeRequest request;
  request.add_inputs()->set_text("a mail server");
  return client.Encode(request, kSoon).status();
}

// Connections that have said enough to be gRPC's, and say nothing more.
std::vector<RawConnection> OpenSpeaking(const ServerProcess& server, int count) {
  std::vector<RawConnection> connections;
  for (int i = 0; i < count; ++i) {
    connections.emplace_back(server.port());
    EXPECT_TRUE(connections.back().Send(Http2Hello()));
    EXPECT_TRUE(connections.back().IsAnswered());
  }
  return connections;
}

// This process needs descriptors, too.
void RaiseOwnLimit() {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

TEST(Connections, ThousandsOfIdleOnesShutNobodyOut) {
  RaiseOwnLimit();
  ServerProcess server(WithModel({}), /*max_open_files=*/256);
  std::vector<RawConnection> idle;
  for (int i = 0; i < 2200; ++i) {
    idle.emplace_back(server.port());
    ASSERT_TRUE(idle.back().valid());
  }
  Client client({.address = server.address()});
  EXPECT_TRUE(Encode(client).ok());
  EXPECT_EQ(Health(server), true);
  EXPECT_GT(server.Metric("beamline_connections_refused_total{reason=\"displaced\"}"), 1500);
  EXPECT_GT(server.Metric("process_open_fds"), 64);
  EXPECT_LT(server.Metric("process_open_fds"), 256);
  EXPECT_EQ(server.Metric("beamline_accept_errors_total"), 0);
  idle.clear();
  EXPECT_EQ(Health(server), true);
  EXPECT_TRUE(Eventually(
      [&] { return server.Metric("beamline_connections_open{state=\"silent\"}") == 0; }));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(), HasSubstr("the limit of open files (ulimit -n) leaves room"));
}

TEST(Connections, TooManyAreRefusedAndToldOf) {
  ServerProcess server(WithModel({"--max-connections", "6"}));
  Client client({.address = server.address()});
  ASSERT_TRUE(Encode(client).ok());
  std::vector<RawConnection> open = OpenSpeaking(server, 5);
  RawConnection refused(server.port());
  EXPECT_TRUE(refused.IsClosed());
  EXPECT_EQ(client.Health("", kSoon).value_or(true), false);
  EXPECT_EQ(client.Health("embed-en", kSoon).value_or(true), false);
  EXPECT_EQ(server.Metric("beamline_accepting"), 0);
  EXPECT_EQ(server.Metric("beamline_connections_refused_total{reason=\"limit\"}"), 1);
  EXPECT_TRUE(Encode(client).ok());  // who is connected is served
  open.pop_back();
  EXPECT_TRUE(Eventually([&] { return client.Health("", kSoon).value_or(false); }));
  EXPECT_EQ(Health(server), true);
  EXPECT_EQ(server.Metric("beamline_accepting"), 1);
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(), HasSubstr("error refused a connection: 6 are open"));
  EXPECT_THAT(server.process().err(), HasSubstr("accepting connections again"));
}

TEST(Connections, OneAddressLeavesRoomForOthers) {
  ServerProcess server(WithModel({"--max-connections-per-peer", "3"}));
  const std::vector<RawConnection> open = OpenSpeaking(server, 3);
  RawConnection fourth(server.port());
  EXPECT_TRUE(fourth.IsClosed());
  RawConnection other(server.port(), "127.0.0.2");
  ASSERT_TRUE(other.Send(Http2Hello()));
  EXPECT_TRUE(other.IsAnswered());
  EXPECT_FALSE(other.IsClosed(std::chrono::milliseconds(100)));
  EXPECT_EQ(server.Metric("beamline_connections_refused_total{reason=\"peer_limit\"}"), 1);
  EXPECT_EQ(server.Metric("beamline_connections_accepted_total"), 4);
  EXPECT_EQ(server.Metric("beamline_connections_open{state=\"speaking\"}"), 4);
  EXPECT_EQ(server.Metric("beamline_connections_open{state=\"silent\"}"), 0);
  EXPECT_EQ(server.Metric("beamline_accept_errors_total"), 0);
  EXPECT_EQ(server.Metric("beamline_accepting"), 1);
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(), HasSubstr("refused a connection of 127.0.0.1: 3 of its"));
}

TEST(Connections, HandshakesHaveATimeLimit) {
  ServerProcess server(WithModel({"--handshake-timeout-ms", "1000"}));
  RawConnection silent(server.port());
  RawConnection half(server.port());
  ASSERT_TRUE(half.Send(Http2Hello().substr(0, 10)));
  RawConnection without_settings(server.port());
  ASSERT_TRUE(without_settings.Send(Http2Hello().substr(0, 24)));
  EXPECT_TRUE(Eventually(
      [&] { return server.Metric("beamline_connections_open{state=\"silent\"}") == 2; }));
  for (RawConnection* each : {&silent, &half, &without_settings}) {
    EXPECT_TRUE(each->IsClosed(std::chrono::seconds(5)));
  }
  EXPECT_EQ(server.Metric("beamline_connections_refused_total{reason=\"timeout\"}"), 2);
  RawConnection browser(server.port());
  ASSERT_TRUE(browser.Send("GET /metrics HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(browser.IsClosed());
  EXPECT_EQ(server.Metric("beamline_connections_refused_total{reason=\"protocol\"}"), 1);
  EXPECT_EQ(Health(server), true);
}

TEST(Connections, IdleOnesAreClosedAndTheirPlacesFree) {
  ServerProcess server(WithModel({"--max-connection-idle-ms", "400"}));
  std::vector<RawConnection> idle = OpenSpeaking(server, 3);
  for (RawConnection& each : idle) EXPECT_TRUE(each.IsClosed());
  EXPECT_TRUE(Eventually(
      [&] { return server.Metric("beamline_connections_open{state=\"speaking\"}") == 0; }));
  // A client whose connection was closed for its silence goes on.
  Client client({.address = server.address()});
  ASSERT_TRUE(Encode(client).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  EXPECT_TRUE(Encode(client).ok());
}

// No call notices, not one that takes longer than its connection may live.
TEST(Connections, OldOnesAreClosedAndNoCallIsLost) {
  ServerProcess server({"--max-connection-age-ms", "300", "--model",
                        "write-en=" BEAMLINE_SOURCE_DIR "/models/write-en"});
  Client client({.address = server.address()});
  v1::GenerateRequest request;
  request.mutable_prompt()->set_text("Package: ");
  request.mutable_greedy();
  request.mutable_limits()->set_max_new_tokens(8);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2500);
  while (std::chrono::steady_clock::now() < until) {
    const auto answer = client.Generate(request, kSoon);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
  EXPECT_GE(server.Metric("beamline_connections_accepted_total"), 4);
  request.mutable_sampling()->set_num_sequences(32);
  request.mutable_limits()->set_max_new_tokens(480);
  request.mutable_limits()->set_ignore_eos(true);
  const auto begin = std::chrono::steady_clock::now();
  const auto answer = client.Generate(request, kSoon);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->usage().generated_tokens(), 32 * 480);
  EXPECT_GT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(600));
}

TEST(Connections, AWantOfDescriptorsIsToldAndPasses) {
  ServerProcess server(WithModel({}));
  Client client({.address = server.address()});
  ASSERT_TRUE(Encode(client).ok());
  const pid_t pid = server.process().pid();
  rlimit before{};
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none = {1, before.rlim_max};
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &none, nullptr), 0);
  RawConnection waiting(server.port());
  ASSERT_TRUE(waiting.Send(Http2Hello()));
  EXPECT_TRUE(Eventually([&] { return !client.Health("", kSoon).value_or(true); }));
  EXPECT_TRUE(Encode(client).ok());
  ASSERT_EQ(prlimit(pid, RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(waiting.IsAnswered());
  EXPECT_TRUE(Eventually([&] { return client.Health("", kSoon).value_or(false); }));
  EXPECT_GT(server.Metric("beamline_accept_errors_total"), 0);
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(), HasSubstr("error cannot accept a connection: Too many open"));
}

TEST(Connections, HalfARequestDoesNotHoldUpAScrape) {
  RaiseOwnLimit();
  for (const int count : {2, 900}) {  // 900: more than there are places
    ServerProcess server(WithModel({}));
    std::vector<RawConnection> half_open;
    for (int i = 0; i < count; ++i) {
      half_open.emplace_back(server.metrics_port());
      ASSERT_TRUE(half_open.back().Send("GET /metrics HTTP/1.1\r\nHost: "));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(server.Scrape(), HasSubstr("beamline_replica_up"));
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
    // Nor an end.
    half_open.emplace_back(server.metrics_port());
    ASSERT_TRUE(half_open.back().Send("GET "));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const auto end = std::chrono::steady_clock::now();
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().Wait(std::chrono::seconds(10)), 0);
    EXPECT_LT(std::chrono::steady_clock::now() - end, std::chrono::milliseconds(1500));
  }
}

TEST(Connections, ListensOnNamesAndBothFamilies) {
  for (const char* host : {"localhost", "0.0.0.0", "[::]"}) {
    SCOPED_TRACE(host);
    ChildProcess server(BEAMLINE_SERVER_BINARY,
                        WithModel({"--listen", std::string(host) + ":0", "--metrics-listen",
                                   "127.0.0.1:0", "--http-listen", "off", "--device", "cpu"}));
    const std::string line = server.ReadLine();
    const size_t begin = line.find(std::string(host) + ":");
    ASSERT_NE(begin, std::string::npos) << line << server.err();
    const int port = std::atoi(line.c_str() + begin + std::string(host).size() + 1);
    Client client({.address = "127.0.0.1:" + std::to_string(port)});
    EXPECT_TRUE(client.Health("", kSoon).value_or(false));
    server.Signal(SIGTERM);
    EXPECT_EQ(server.Wait(), 0);
  }
}

}  // namespace
}  // namespace beamline::connections_test
