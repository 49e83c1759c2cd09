#include "client/metrics/metrics_reader.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

namespace beamline::metrics_reader_test {
namespace {

using std::chrono::milliseconds;

// Answers one connection after the other with what it is told; nothing: never.
class TinyServer {
 public:
  explicit TinyServer(std::string answer) : answer_(std::move(answer)) {
    fd_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    if (!answer_.empty()) thread_ = std::thread([this] { Serve(); });
  }
  ~TinyServer() {
    shutdown(fd_, SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
    close(fd_);
  }
  TinyServer(const TinyServer&) = delete;
  TinyServer& operator=(const TinyServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/metrics"; }

 private:
  void Serve() {
    for (int call = accept(fd_, nullptr, nullptr); call >= 0;
         call = accept(fd_, nullptr, nullptr)) {
      std::array<char, 4096> request;
      if (read(call, request.data(), request.size()) > 0) {
        EXPECT_GT(send(call, answer_.data(), answer_.size(), MSG_NOSIGNAL), 0);
      }
      close(call);
    }
  }

  const std::string answer_;
  int fd_ = -1;
  int port_ = 0;
  std::thread thread_;
};

std::string Response(const std::string& status, const std::string& body) {
  return "HTTP/1.1 " + status +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

TEST(MetricsReaderTest, ReadsAgainAndAgain) {
  const TinyServer server(Response("200 OK", "beamline_x 1\n"));
  MetricsReader reader(server.url());
  for (int i = 0; i < 3; ++i) {
    const auto text = reader.Read();
    ASSERT_TRUE(text.ok()) << text.status();
    EXPECT_EQ(*text, "beamline_x 1\n");
  }
}

TEST(MetricsReaderTest, AServerThatIsNotThereIsUnavailable) {
  MetricsReader gone("http://127.0.0.1:1/metrics");
  EXPECT_EQ(gone.Read().status().code(), absl::StatusCode::kUnavailable);
  const TinyServer failing(Response("500 Oh", ""));
  EXPECT_EQ(MetricsReader(failing.url()).Read().status().code(), absl::StatusCode::kUnavailable);
  const TinyServer silent("");
  EXPECT_EQ(MetricsReader(silent.url(), milliseconds(100)).Read().status().code(),
            absl::StatusCode::kUnavailable);
}

TEST(MetricsReaderTest, OtherWorkEndsAReading) {
  const TinyServer silent("");
  MetricsReader reader(silent.url(), std::chrono::minutes(5));
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::thread key([&ends] {
    std::this_thread::sleep_for(milliseconds(100));
    EXPECT_EQ(write(ends[1], "q", 1), 1);
  });
  const std::array wake = {ends[0]};
  EXPECT_EQ(reader.Read(wake).status().code(), absl::StatusCode::kCancelled);
  key.join();
  for (const int end : ends) close(end);
}

TEST(MetricsReaderTest, UrlsAreOfAHost) {
  EXPECT_TRUE(CheckHttpUrl("--metrics", "http://127.0.0.1:50052/metrics").ok());
  EXPECT_TRUE(CheckHttpUrl("--metrics", "https://[::1]:5").ok());
  for (const char* url : {"", "127.0.0.1:50052", "http://", "http:///metrics", "ftp://host/",
                          "http://user@host/", "http://a b/", "file:///etc/passwd",
                          "http://127.0.0.1:port/metrics", "http://127.0.0.1:99999/metrics",
                          "http://127.0.0.1:0/metrics", "http://[::1/metrics", "http://:50052/"}) {
    EXPECT_EQ(CheckHttpUrl("--metrics", url).code(), absl::StatusCode::kInvalidArgument) << url;
  }
  EXPECT_EQ(HostOfUrl("http://host:1/metrics?x#y"), "host:1");
}

}  // namespace
}  // namespace beamline::metrics_reader_test
