#include "server/process/notify.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

namespace beamline::notify_test {
namespace {

// A manager that listens where NOTIFY_SOCKET says: at a path, or, with @, at an abstract name.
class Manager {
 public:
  explicit Manager(const std::string& name) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, name.data(), name.size());
    if (name[0] == '@') address.sun_path[0] = '\0';
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address), size), 0) << name;
    setenv("NOTIFY_SOCKET", name.c_str(), 1);
  }
  ~Manager() {
    unsetenv("NOTIFY_SOCKET");
    close(fd_);
  }

  std::string Receive() const {
    char buffer[1000];
    const ssize_t size = recv(fd_, buffer, sizeof(buffer), MSG_DONTWAIT);
    return size < 0 ? "nothing" : std::string(buffer, static_cast<size_t>(size));
  }

 private:
  const int fd_;
};

TEST(Notify, TellsTheManagerAtAPath) {
  std::string folder = "/tmp/beamline_notify_XXXXXX";  // short, as addresses are
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/s";
  {
    const Manager manager(path);
    EXPECT_TRUE(Notify("READY=1\nSTATUS=a"));
    EXPECT_EQ(manager.Receive(), "READY=1\nSTATUS=a");
  }
  unlink(path.c_str());
  rmdir(folder.c_str());
}

TEST(Notify, TellsTheManagerAtAnAbstractName) {
  const Manager manager("@beamline_notify_test_" + std::to_string(getpid()));
  EXPECT_TRUE(Notify("STOPPING=1"));
  EXPECT_EQ(manager.Receive(), "STOPPING=1");
}

TEST(Notify, DoesNothingWhereNobodyAsks) {
  unsetenv("NOTIFY_SOCKET");
  EXPECT_TRUE(Notify("READY=1"));
  setenv("NOTIFY_SOCKET", "", 1);
  EXPECT_TRUE(Notify("READY=1"));
  unsetenv("NOTIFY_SOCKET");
}

TEST(Notify, SaysWhenNobodyHears) {
  for (const std::string& path : {std::string("/nonexistent/socket"), std::string(200, 'x')}) {
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
    EXPECT_FALSE(Notify("READY=1")) << path;
  }
  unsetenv("NOTIFY_SOCKET");
}

}  // namespace
}  // namespace beamline::notify_test
