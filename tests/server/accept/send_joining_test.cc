// What leaves in one segment, by the kernel's own count.
#include "server/accept/send_joining.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
// Behind netinet: what the kernel tells of a connection.
#include <linux/tcp.h>

#include <array>
#include <string>
#include <string_view>

#include "base/send_batch.h"
#include "server/accept/unique_fd.h"

namespace beamline::send_joining_test {
namespace {

constexpr int kTries = 50;

class SendJoiningTest : public testing::Test {
 protected:
  // Both ends of a connection, of which the own one has no Nagle's algorithm, as gRPC's.
  void SetUp() override {
    UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    ASSERT_EQ(bind(listener.get(), any, size), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    ASSERT_EQ(getsockname(listener.get(), any, &size), 0);
    own_ = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(own_.get(), any, size), 0);
    other_ = UniqueFd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_TRUE(other_.valid());
    const int on = 1;
    ASSERT_EQ(setsockopt(own_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
  }
  // As gRPC sends.
  void Send(std::string_view text) const {
    iovec part{const_cast<char*>(text.data()), text.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    EXPECT_EQ(sendmsg(own_.get(), &message, MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  std::string Receive(size_t size) const {
    std::string text(size, '\0');
    EXPECT_EQ(recv(other_.get(), text.data(), size, MSG_WAITALL), static_cast<ssize_t>(size));
    return text;
  }
  // With data, of the own end so far.
  uint32_t NumSegments() const {
    tcp_info info{};
    socklen_t size = sizeof(info);
    EXPECT_EQ(getsockopt(own_.get(), IPPROTO_TCP, TCP_INFO, &info, &size), 0);
    return info.tcpi_data_segs_out;
  }

  UniqueFd own_, other_;
};

TEST_F(SendJoiningTest, EachPieceLeavesAtOnceWithoutABatch) {
  JoinSends();
  Send("a");
  EXPECT_EQ(NumSegments(), 1u);
  Send("b");
  EXPECT_EQ(NumSegments(), 2u);
  EXPECT_EQ(Receive(2), "ab");
}

TEST_F(SendJoiningTest, ThePiecesOfABatchLeaveTogether) {
  JoinSends();
  // Where the thread has to wait for a core, the kernel may send what it keeps before the end.
  bool together = false;
  for (int i = 0; i < kTries && !together; ++i) {
    const uint32_t before = NumSegments();
    {
      const SendBatch batch;
      for (const char* piece : {"a", "b", "c"}) Send(piece);
    }
    together = NumSegments() == before + 1;
    EXPECT_EQ(Receive(3), "abc");  // all of it has left, in its order
  }
  EXPECT_TRUE(together);
}

TEST_F(SendJoiningTest, AFlushSendsWhatIsKept) {
  JoinSends();
  SendBatch batch;
  Send("a");
  batch.Flush();
  EXPECT_EQ(NumSegments(), 1u);
  EXPECT_EQ(Receive(1), "a");
  Send("b");
  Send("c");
  batch.Flush();
  EXPECT_EQ(Receive(2), "bc");
}

}  // namespace
}  // namespace beamline::send_joining_test
