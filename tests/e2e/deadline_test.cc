// Deadlines that no gRPC client library sends: a call may ask for 11,000 years, and the clocks that
// deadlines become count 292.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "beamline/v1/inference.pb.h"
#include "tests/e2e/server_process.h"

namespace beamline::deadline_test {
namespace {

enum FrameType : uint8_t { kData = 0, kHeaders = 1, kSettings = 4 };
constexpr uint8_t kEndStream = 1;  // of data and headers
constexpr uint8_t kAck = 1;        // of settings
constexpr uint8_t kEndHeaders = 4;

// RFC 9113, 4.1; all streams are the first.
std::string Frame(FrameType type, uint8_t flags, std::string_view payload) {
  const size_t size = payload.size();
  std::string frame = {static_cast<char>(size >> 16),
                       static_cast<char>(size >> 8),
                       static_cast<char>(size),
                       static_cast<char>(type),
                       static_cast<char>(flags),
                       0,
                       0,
                       0,
                       static_cast<char>(type == kSettings ? 0 : 1)};
  return frame.append(payload);
}

// RFC 7541, 6.2.2: a literal without indexing. REQUIRES: both are shorter than 127 bytes.
std::string Header(std::string_view name, std::string_view value) {
  std::string header(1, '\0');
  for (const std::string_view text : {name, value}) {
    header.push_back(static_cast<char>(text.size()));
    header.append(text);
  }
  return header;
}

// gRPC's frame around a message: not compressed, and its length.
std::string Framed(const std::string& message) {
  const size_t size = message.size();
  return std::string({0, static_cast<char>(size >> 24), static_cast<char>(size >> 16),
                      static_cast<char>(size >> 8), static_cast<char>(size)}) +
         message;
}

bool ReadExactly(int fd, size_t size, std::string& bytes) {
  bytes.resize(size);
  for (size_t got = 0; got < size;) {
    const ssize_t count = recv(fd, bytes.data() + got, size - got, 0);
    if (count <= 0) return false;
    got += static_cast<size_t>(count);
  }
  return true;
}

// The message that a Generate call with this grpc-timeout is answered with; empty: none.
std::string RawGenerate(const std::string& server, const std::string& timeout,
                        const v1::GenerateRequest& request) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(server.substr(server.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience = {.tv_sec = 30, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  const std::string headers = Header(":method", "POST") + Header(":scheme", "http") +
                              Header(":path", "/beamline.v1.Inference/Generate") +
                              Header(":authority", "localhost") + Header("te", "trailers") +
                              Header("content-type", "application/grpc") +
                              Header("grpc-timeout", timeout);
  const std::string call = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Frame(kSettings, 0, "") +
                           Frame(kHeaders, kEndHeaders, headers) +
                           Frame(kData, kEndStream, Framed(request.SerializeAsString()));
  std::string data;
  bool open = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
              send(fd, call.data(), call.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(call.size());
  for (std::string head, payload; open;) {
    if (!ReadExactly(fd, 9, head)) break;
    const auto byte = [&head](size_t i) { return static_cast<uint8_t>(head[i]); };
    if (!ReadExactly(fd, static_cast<size_t>(byte(0) << 16 | byte(1) << 8 | byte(2)), payload))
      break;
    if (byte(3) == kData) data += payload;
    if (byte(3) == kSettings && (byte(4) & kAck) == 0) {
      const std::string ack = Frame(kSettings, kAck, "");
      open = send(fd, ack.data(), ack.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(ack.size());
    }
    if (byte(3) == kHeaders && (byte(4) & kEndStream) != 0) break;
  }
  close(fd);
  return data.size() < 5 ? "" : data.substr(5);
}

TEST(Deadline, OfAnyLengthIsKept) {
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("Package: ");
  request.mutable_limits()->set_max_new_tokens(4);
  // 30 seconds; 235, 237 and 300 years, twice around a 64-bit clock of nanoseconds, and the most
  // that the header can hold.
  for (const char* timeout : {"30S", "2060000H", "2077000H", "2630000H", "8000000H", "10250000H",
                              "99999999H", "99999999M", "99999999S"}) {
    v1::GenerateResponse response;
    ASSERT_TRUE(response.ParseFromString(RawGenerate(SharedServer().address(), timeout, request)));
    ASSERT_EQ(response.sequences_size(), 1) << timeout;
    EXPECT_NE(response.sequences(0).finish_reason(), v1::FINISH_REASON_DEADLINE) << timeout;
  }
}

}  // namespace
}  // namespace beamline::deadline_test
