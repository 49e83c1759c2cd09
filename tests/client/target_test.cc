#include "client/target.h"

#include <gtest/gtest.h>

namespace beamline::target_test {
namespace {

TEST(Target, HasAPort) {
  for (const char* good :
       {"127.0.0.1:50051", "localhost:1", "[::1]:65535", "dns:host:80", "dns:///host:80",
        "dns://8.8.8.8/host:80", "ipv4:1.2.3.4:5,6.7.8.9:10", "ipv6:[::1]:5", "unix:relative",
        "unix:/run/s", "unix:///run/s", "unix-abstract:name"}) {
    EXPECT_TRUE(CheckTarget("--address", good).ok()) << good;
  }
  for (const char* bad : {"",
                          ":",
                          "host",
                          "host:",
                          ":80",
                          "127.0.0.1",
                          "host:0",
                          "host:65536",
                          "host:-1",
                          "host:80x",
                          "::1",
                          "::1:80",
                          "[::1]",
                          "[]:80",
                          "http://host:80",
                          "host:80/path",
                          "a b:80",
                          "unix:",
                          "dns:///host",
                          "dns://host:80",
                          "ipv4:1.2.3.4",
                          "ipv4:1.2.3.4:5,",
                          "host: 80"}) {
    EXPECT_EQ(CheckTarget("--address", bad).message(),
              std::string("--address is '") + bad +
                  "'; accepted: host:port, as 127.0.0.1:50051, or unix:PATH");
  }
}

}  // namespace
}  // namespace beamline::target_test
