// A client of HTTP/1.1 that says exactly what a test wants, and waits at most some seconds.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

namespace beamline {

struct HttpReply {
  int status = 0;                              // 0: none came
  std::map<std::string, std::string> headers;  // names in small letters
  std::string body;                            // without chunks' own lines
  bool whole = false;                          // the body is there to its end

  nlohmann::json json() const { return nlohmann::json::parse(body, nullptr, false); }
  // A field of the error's.
  std::string error(const char* field) const {
    const auto parsed = json();
    if (!parsed.is_object() || !parsed.contains("error")) return "no error";
    const auto& value = parsed["error"][field];
    return value.is_string() ? value.get<std::string>() : value.dump();
  }
};

class HttpClient {
 public:
  explicit HttpClient(int port, int receive_buffer = 0)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  HttpClient(const HttpClient&) = delete;
  ~HttpClient() { Close(); }

  bool connected() const { return connected_; }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  // Sends nothing more.
  void HalfClose() { shutdown(fd_, SHUT_WR); }
  // With an RST.
  void Reset() {
    const linger now{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    Close();
  }

  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  static std::string Format(const std::string& method, const std::string& path,
                            const std::string& body = "",
                            const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    std::string text = method + " " + path + " HTTP/1.1\r\nHost: test\r\n";
    if (method == "POST") {
      text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
              "\r\n";
    }
    for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
    return text + "\r\n" + body;
  }
  HttpReply Get(const std::string& path,
                const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    Send(Format("GET", path, "", headers));
    return Read();
  }
  HttpReply Post(const std::string& path, const std::string& body,
                 const std::vector<std::pair<std::string, std::string>>& headers = {}) {
    Send(Format("POST", path, body, headers));
    return Read();
  }

  // One reply; `has_body` false for those to HEAD.
  HttpReply Read(std::chrono::milliseconds timeout = std::chrono::seconds(20),
                 bool has_body = true) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    HttpReply reply = ReadHead(until);
    if (reply.status == 0 || reply.status == 100) return reply;
    if (!has_body) return reply;
    if (const auto length = reply.headers.find("content-length"); length != reply.headers.end()) {
      const size_t size = std::strtoull(length->second.c_str(), nullptr, 10);
      reply.whole = Fill(size, until);
      reply.body = Take(std::min(size, buffer_.size()));
      return reply;
    }
    if (reply.headers.contains("transfer-encoding")) {
      while (const auto chunk = ReadChunk(until)) {
        if (chunk->empty()) {
          reply.whole = true;
          break;
        }
        reply.body += *chunk;
      }
      return reply;
    }
    while (Fill(buffer_.size() + 1, until)) {
    }
    reply.body = Take(buffer_.size());
    reply.whole = true;
    return reply;
  }
  HttpReply ReadHead(std::chrono::steady_clock::time_point until) {
    HttpReply reply;
    size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n\r\n")) == std::string::npos) {
      if (!Fill(buffer_.size() + 1, until)) return reply;
    }
    const std::string head = Take(end + 4);
    reply.status = std::atoi(head.c_str() + std::min<size_t>(head.size(), 9));
    for (size_t line = head.find("\r\n") + 2; line + 2 < head.size();) {
      const size_t line_end = head.find("\r\n", line);
      const size_t colon = head.find(": ", line);
      std::string name = head.substr(line, colon - line);
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      reply.headers[name] = head.substr(colon + 2, line_end - colon - 2);
      line = line_end + 2;
    }
    return reply;
  }
  // Of a body in chunks the next one; empty: the last one; nothing: it does not come.
  std::optional<std::string> ReadChunk(std::chrono::steady_clock::time_point until) {
    size_t end = std::string::npos;
    while ((end = buffer_.find("\r\n")) == std::string::npos) {
      if (!Fill(buffer_.size() + 1, until)) return std::nullopt;
    }
    const size_t size = std::strtoull(Take(end + 2).c_str(), nullptr, 16);
    if (!Fill(size + 2, until)) return std::nullopt;
    std::string chunk = Take(size);
    Take(2);
    return chunk;
  }
  // Whether the other end closes. Reads what it sends before.
  bool IsClosed(std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    const auto until = std::chrono::steady_clock::now() + timeout;
    while (Fill(buffer_.size() + 1, until)) buffer_.clear();
    return ended_;
  }
  // Takes so many bytes at most, and forgets them. False: the other end has closed.
  bool Drip(size_t most) {
    std::string bytes(most, '\0');
    return recv(fd_, bytes.data(), most, 0) > 0;
  }

 private:
  // Reads until there are `size` bytes.
  bool Fill(size_t size, std::chrono::steady_clock::time_point until) {
    std::array<char, 65536> bytes;
    while (buffer_.size() < size) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
      pollfd ready{fd_, POLLIN, 0};
      if (left.count() <= 0 || poll(&ready, 1, static_cast<int>(left.count())) <= 0) return false;
      const ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
      if (got <= 0) {
        ended_ = true;
        return false;
      }
      buffer_.append(bytes.data(), static_cast<size_t>(got));
    }
    return true;
  }
  std::string Take(size_t size) {
    std::string taken = buffer_.substr(0, size);
    buffer_.erase(0, size);
    return taken;
  }

  int fd_;
  bool connected_ = false;
  bool ended_ = false;
  std::string buffer_;
};

// The data of a stream's events.
inline std::vector<std::string> EventsOf(const std::string& body) {
  std::vector<std::string> events;
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find("\n\n", at);
    if (end == std::string::npos || body.compare(at, 6, "data: ") != 0) {
      events.push_back("not an event: " + body.substr(at, 100));
      break;
    }
    events.push_back(body.substr(at + 6, end - at - 6));
    at = end + 2;
  }
  return events;
}

}  // namespace beamline
