// A TCP connection to a port of this machine, for what no gRPC client does.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>

namespace beamline {

// What a client of HTTP/2 begins with: the preface and an empty SETTINGS frame.
inline std::string Http2Hello() {
  return std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string("\0\0\0\4\0\0\0\0\0", 9);
}

class RawConnection {
 public:
  // From `source`, an address of this machine. Does not wait until it is accepted.
  explicit RawConnection(int port, const char* source = "127.0.0.1")
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sockaddr_in own{}, other{};
    own.sin_family = other.sin_family = AF_INET;
    inet_pton(AF_INET, source, &own.sin_addr);
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    other.sin_port = htons(static_cast<uint16_t>(port));
    const int late = 1;  // the port is chosen at connect(), by both addresses
    setsockopt(fd_, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &late, sizeof(late));
    bind(fd_, reinterpret_cast<const sockaddr*>(&own), sizeof(own));
    static_cast<void>(connect(fd_, reinterpret_cast<const sockaddr*>(&other), sizeof(other)));
  }
  RawConnection(RawConnection&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  RawConnection& operator=(RawConnection&&) = delete;
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }

  bool valid() const { return fd_ >= 0; }
  bool Send(std::string_view bytes) {
    pollfd ready{fd_, POLLOUT, 0};
    poll(&ready, 1, 10000);
    return send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }
  // Whether the other end sends something before it closes.
  bool IsAnswered(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    std::array<char, 256> bytes;
    return Wait(timeout) && recv(fd_, bytes.data(), bytes.size(), 0) > 0;
  }
  // All that the other end sends until it ends, within ten seconds.
  std::string ReadAll() {
    std::string all;
    std::array<char, 256> bytes;
    while (Wait(std::chrono::seconds(10))) {
      const ssize_t size = recv(fd_, bytes.data(), bytes.size(), 0);
      if (size <= 0) break;
      all.append(bytes.data(), static_cast<size_t>(size));
    }
    return all;
  }
  // Whether the other end closes within the time. Reads what it sends before.
  bool IsClosed(std::chrono::milliseconds timeout = std::chrono::seconds(10)) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    while (true) {
      const auto left = until - std::chrono::steady_clock::now();
      if (!Wait(std::chrono::ceil<std::chrono::milliseconds>(left))) return false;
      std::array<char, 256> bytes;
      if (recv(fd_, bytes.data(), bytes.size(), 0) <= 0) return true;
    }
  }

 private:
  bool Wait(std::chrono::milliseconds timeout) {
    pollfd ready{fd_, POLLIN, 0};
    return timeout.count() >= 0 && poll(&ready, 1, static_cast<int>(timeout.count())) > 0;
  }

  int fd_;
};

}  // namespace beamline
