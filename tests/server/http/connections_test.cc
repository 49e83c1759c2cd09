#include "server/http/connections.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "server/net/acceptor.h"
#include "server/net/unique_fd.h"
#include "tests/server/http/http_client.h"
#include "tests/thread_limit.h"

namespace beamline::connections_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Answers at once with the size of the body, or with megabytes (/large); keeps requests to /hold
// until they are let go, or their client goes.
class TestHandler final : public HttpHandler {
 public:
  std::optional<HttpAnswer> CheckHead(HttpRequest& request) override {
    request.identity = request.client_id.value_or("");
    return std::nullopt;
  }
  void Handle(const std::shared_ptr<Exchange>& exchange) override {
    if (exchange->request().path == "/hold") {
      exchange->OnGone([this] { Count("gone"); });
      std::lock_guard lock(mutex_);
      held_ = exchange;
      changed_.notify_all();
      return;
    }
    const bool is_large = exchange->request().path == "/large";
    exchange->Answer({.body = is_large ? std::string(32 << 20, 'x')
                                       : std::to_string(exchange->request().body.size())},
                     [this](bool sent) { Count(sent ? "sent" : "unsent"); });
  }
  HttpAnswer Fault(int status, const std::string& message) override {
    return {.status = status, .body = message};
  }

  bool WaitForHeld() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [this] { return held_ != nullptr; });
  }
  void LetGo() {
    std::shared_ptr<Exchange> held;
    {
      std::lock_guard lock(mutex_);
      held = std::move(held_);
    }
    held->Answer({.body = "held"}, [this](bool sent) { Count(sent ? "sent" : "unsent"); });
  }
  bool WaitFor(const std::string& what, int count = 1) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, seconds(20), [&] { return counts_[what] >= count; });
  }
  int count(const std::string& what) {
    std::lock_guard lock(mutex_);
    return counts_[what];
  }

 private:
  void Count(const std::string& what) {
    std::lock_guard lock(mutex_);
    ++counts_[what];
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::shared_ptr<Exchange> held_;
  std::map<std::string, int> counts_;
};

class HttpConnectionsTest : public testing::Test {
 protected:
  void Serve(const HttpOptions& options) {
    auto sockets = OpenListenSockets("127.0.0.1", 0, seconds(20));
    ASSERT_TRUE(sockets.ok()) << sockets.status();
    port_ = sockets->port;
    auto connections = HttpConnections::Start(options, handler_, stats_, nullptr);
    ASSERT_TRUE(connections.ok()) << connections.status();
    connections_ = *std::move(connections);
    auto acceptor = Acceptor::Start(
        *std::move(sockets), {.first_bytes = kAnyByte}, [this](int fd) { connections_->Take(fd); },
        [](bool) {}, stats_.connections);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
  }

  TestHandler handler_;
  HttpStats stats_;
  int port_ = 0;
  std::unique_ptr<HttpConnections> connections_;
  std::unique_ptr<Acceptor> acceptor_;
};

// Leaves this process so many descriptors while it lives.
class FewDescriptors {
 public:
  explicit FewDescriptors(int count) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    std::vector<UniqueFd> free;
    for (int i = 0; i <= count; ++i) free.emplace_back(dup(STDERR_FILENO));
    rlimit few = before_;
    few.rlim_cur = static_cast<rlim_t>(free.back().get());
    free.clear();
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FewDescriptors() { EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &before_), 0); }

 private:
  rlimit before_{};
};

// Those of a server that gRPC's connections use up before anybody has spoken HTTP.
TEST_F(HttpConnectionsTest, TheFirstConnectionNeedsOneDescriptor) {
  Serve({});
  const FewDescriptors two(2);  // the client's and the server's
  EXPECT_EQ(HttpClient(port_).Post("/", "abc").body, "3");
}

TEST_F(HttpConnectionsTest, WithoutDescriptorsItDoesNotStart) {
  const FewDescriptors none(0);
  const auto connections = HttpConnections::Start({}, handler_, stats_, nullptr);
  EXPECT_EQ(connections.status(),
            absl::UnavailableError("HTTP cannot be served: Too many open files"));
}

TEST_F(HttpConnectionsTest, WithoutThreadsItDoesNotStart) {
  const ThreadLimit limit(1);
  EXPECT_THROW(HttpConnections::Start({}, handler_, stats_, nullptr).status().IgnoreError(),
               std::system_error);
}

TEST_F(HttpConnectionsTest, BodiesOfAllRequestsAreBoundedTogether) {
  Serve({.max_bodies_bytes = 1000});
  HttpClient holding(port_);
  holding.Send(HttpClient::Format("POST", "/hold", std::string(800, 'x')));
  ASSERT_TRUE(handler_.WaitForHeld());
  const std::vector<std::pair<std::string, std::string>> other = {{"x-client-id", "other"}};
  const HttpReply refused = HttpClient(port_).Post("/", std::string(300, 'x'), other);
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.at("retry-after"), "1");
  EXPECT_EQ(HttpClient(port_).Post("/", std::string(200, 'x'), other).body, "200");
  handler_.LetGo();
  EXPECT_EQ(holding.Read().body, "held");
  EXPECT_EQ(HttpClient(port_).Post("/", std::string(1000, 'x')).body, "1000");
}

// Bodies that are sent but for their last byte, and never answered, leave room for others'.
TEST_F(HttpConnectionsTest, AClientsBodiesLeaveRoomForOthers) {
  Serve({.max_bodies_bytes = 1000});
  const auto hold = [this] {
    auto client = std::make_unique<HttpClient>(port_);
    client->Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 250\r\n\r\n" +
                 std::string(249, 'x'));
    return client;
  };
  std::vector<std::unique_ptr<HttpClient>> holding;
  for (int i = 0; i < 2; ++i) holding.push_back(hold());
  HttpReply refused;
  // Until the server has read what is held. What it reads beside one of these it refuses.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (refused.status != 503 && std::chrono::steady_clock::now() < end) {
    refused = HttpClient(port_).Post("/", "abc");
    for (auto& client : holding) {
      if (client->Read(milliseconds(1)).status != 0) client = hold();
    }
  }
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body,
            "the client's requests that this server is reading have 500 bytes, the most of one "
            "client");
  const std::vector<std::pair<std::string, std::string>> other = {{"x-client-id", "other"}};
  EXPECT_EQ(HttpClient(port_).Post("/", std::string(400, 'x'), other).body, "400");
  holding[0]->Send("x");
  EXPECT_EQ(holding[0]->Read().body, "250");
  EXPECT_EQ(HttpClient(port_).Post("/", "abc").body, "3");
}

// One that takes a little all the time is ended too: an answer is held for its bytes' time at most.
TEST_F(HttpConnectionsTest, AReaderThatDripsLosesItsConnection) {
  Serve({.write_time = milliseconds(300), .least_bytes_per_second = size_t{64} << 20});
  HttpClient slow(port_, 4096);
  slow.Send(HttpClient::Format("GET", "/large"));  // for which it has 0.8 s
  std::atomic<bool> over{false};
  std::thread drip([&] {
    while (!over && slow.Drip(1024)) {
      std::this_thread::sleep_for(milliseconds(20));
    }
  });
  EXPECT_TRUE(handler_.WaitFor("unsent"));
  over = true;
  drip.join();
}

TEST_F(HttpConnectionsTest, AReaderThatTakesNothingLosesItsConnection) {
  Serve({.write_time = milliseconds(200)});
  HttpClient idle(port_, 4096);
  idle.Send(HttpClient::Format("GET", "/large"));
  EXPECT_TRUE(handler_.WaitFor("unsent"));
}

TEST_F(HttpConnectionsTest, LargeAnswersAreWhole) {
  Serve({});
  HttpClient client(port_);
  EXPECT_EQ(client.Get("/large").body.size(), size_t{32} << 20);
  EXPECT_TRUE(handler_.WaitFor("sent"));
  EXPECT_EQ(client.Get("/").status, 200);
}

TEST_F(HttpConnectionsTest, SlowBodiesEnd) {
  Serve({.body_time = milliseconds(200)});
  HttpClient client(port_);
  client.Send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nx");
  EXPECT_EQ(client.Read().status, 408);
  EXPECT_TRUE(client.IsClosed());
}

TEST_F(HttpConnectionsTest, TellsOnceThatTheClientHasGone) {
  Serve({});
  HttpClient client(port_);
  client.Send(HttpClient::Format("GET", "/hold"));
  ASSERT_TRUE(handler_.WaitForHeld());
  client.HalfClose();
  EXPECT_TRUE(handler_.WaitFor("gone"));
  client.Reset();
  handler_.LetGo();
  handler_.WaitFor("unsent");
  EXPECT_EQ(handler_.count("gone"), 1);
}

TEST_F(HttpConnectionsTest, ItsEndWaitsForAnswersThatAreOwed) {
  Serve({});
  HttpClient client(port_);
  client.Send(HttpClient::Format("GET", "/hold"));
  ASSERT_TRUE(handler_.WaitForHeld());
  HttpClient idle(port_);
  EXPECT_EQ(idle.Get("/").status, 200);
  acceptor_.reset();
  connections_->StartDraining();
  connections_->Finish(milliseconds(10));
  EXPECT_TRUE(idle.IsClosed());
  EXPECT_EQ(handler_.count("gone"), 0);
  std::thread end([this] { connections_.reset(); });
  EXPECT_TRUE(handler_.WaitFor("gone"));
  handler_.LetGo();
  end.join();
  EXPECT_TRUE(handler_.WaitFor("unsent"));
}

TEST_F(HttpConnectionsTest, FinishLetsAnAnswerOut) {
  Serve({});
  HttpClient client(port_);
  client.Send(HttpClient::Format("GET", "/hold"));
  ASSERT_TRUE(handler_.WaitForHeld());
  std::thread finish([this] { connections_->Finish(seconds(20)); });
  handler_.LetGo();
  const HttpReply reply = client.Read();
  EXPECT_EQ(reply.body, "held");
  client.Close();
  finish.join();
}

}  // namespace
}  // namespace beamline::connections_test
