// A server whose gRPC does not receive by the functions that guard connections: it finds that out
// when it starts, and does not listen for other machines. gRPC's library is a copy, in which what
// it calls has other names (other_receivers.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tests/e2e/server_process.h"
#include "tests/scratch_path.h"
#include "tests/server/net/raw_connection.h"
#include "tests/server/security/certificates.h"

namespace beamline::unguarded_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kPlain[] = "beamline_connection_guard{kind=\"plain\"}";
constexpr char kTls[] = "beamline_connection_guard{kind=\"tls\"}";
constexpr char kFloods[] = "beamline_connections_refused_total{reason=\"flood\"}";

// Where this program has gRPC's library from.
std::string GrpcPath() {
  std::string path;
  const auto visit = [](dl_phdr_info* info, size_t, void* found) {
    const std::string_view name = info->dlpi_name;
    if (name.find("/libgrpc.so") == std::string_view::npos) return 0;
    *static_cast<std::string*>(found) = name;
    return 1;
  };
  dl_iterate_phdr(visit, &path);
  return path;
}

size_t Rename(std::string& bytes, std::string_view name) {
  const std::string before = '\0' + std::string(name) + '\0';
  size_t count = 0;
  for (size_t at = bytes.find(before); at != std::string::npos; at = bytes.find(before, at)) {
    bytes[at + name.size()] = 'X';  // its last letter
    ++count;
  }
  return count;
}

class Unguarded : public testing::Test {
 protected:
  // Programs that start until the test's end have the other gRPC.
  void UseOtherGrpc() {
    const std::filesystem::path path = GrpcPath();
    std::ifstream file(path, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    ASSERT_EQ(Rename(bytes, "recvmsg"), 1u) << path;
    ASSERT_EQ(Rename(bytes, "SSL_read"), 1u) << path;
    const std::filesystem::path folder = ScratchPath("grpc");
    std::filesystem::create_directories(folder);
    std::ofstream(folder / path.filename(), std::ios::binary) << bytes;
    setenv("LD_LIBRARY_PATH", folder.c_str(), 1);
    setenv("LD_PRELOAD", BEAMLINE_OTHER_RECEIVERS, 1);
  }
  void TearDown() override {
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("LD_PRELOAD");
  }

  static std::vector<std::string> Flags(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--model",
                                      "embed-en=" BEAMLINE_SOURCE_DIR "/models/embed-en"};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  std::vector<std::string> TlsFlags(const std::vector<std::string>& more = {}) {
    const CertificateAndKey pair = authority_.Issue("server");
    ReplaceFile(ScratchPath("server"), pair.certificate);
    ReplaceFile(ScratchPath("server") + ".key", pair.key);
    std::vector<std::string> flags = Flags(more);
    flags.insert(flags.end(), {"--tls-certificate-file", ScratchPath("server"), "--tls-key-file",
                               ScratchPath("server.key")});
    return flags;
  }
  // Whether a client that floods a connection loses it.
  static bool EndsFloods(const ServerProcess& server) {
    RawConnection connection(server.port());
    std::string flood = Http2Hello();
    const std::string settings = flood.substr(flood.size() - 9);
    for (int i = 0; i < 1100; ++i) flood += settings;
    EXPECT_TRUE(connection.Send(flood));
    return connection.IsClosed(std::chrono::seconds(2));
  }
  static std::string StartFails(std::vector<std::string> flags) {
    flags.insert(flags.end(), {"--metrics-listen", "off", "--http-listen", "off"});
    ChildProcess process(BEAMLINE_SERVER_BINARY, flags);
    EXPECT_EQ(process.Wait(), 1);
    return process.err();
  }
  static std::string Log(ServerProcess& server) {
    server.process().Signal(SIGTERM);
    EXPECT_EQ(server.process().Wait(), 0);
    return server.process().err();
  }

  const TestAuthority authority_{"authority"};
};

TEST_F(Unguarded, AGuardThatWorksIsFound) {
  ServerProcess server(Flags({"--listen", "0.0.0.0:0"}));
  EXPECT_EQ(server.Metric(kPlain), 1);
  EXPECT_EQ(server.Metric(kTls), -1);
  // The test is no client's.
  EXPECT_EQ(server.Metric("beamline_connections_accepted_total"), 0);
  EXPECT_EQ(server.Metric(kFloods), 0);
  EXPECT_TRUE(EndsFloods(server));
  EXPECT_EQ(server.Metric(kFloods), 1);
  ServerProcess tls(TlsFlags({"--listen", "0.0.0.0:0", "--health-listen", "127.0.0.1:0"}));
  EXPECT_EQ(tls.Metric(kTls), 1);
  EXPECT_EQ(tls.Metric(kPlain), 1);
  EXPECT_THAT(Log(tls), Not(HasSubstr("GUARDED")));
}

TEST_F(Unguarded, AServerForThisMachineSaysSoAndStarts) {
  UseOtherGrpc();
  ServerProcess server(Flags());
  EXPECT_EQ(server.Metric(kPlain), 0);
  EXPECT_FALSE(EndsFloods(server));  // as it says
  EXPECT_EQ(server.Metric(kFloods), 0);
  EXPECT_THAT(Log(server), HasSubstr("CONNECTIONS ARE NOT GUARDED (plain): gRPC "));
}

TEST_F(Unguarded, AServerForOthersDoesNotStart) {
  UseOtherGrpc();
  EXPECT_THAT(StartFails(Flags({"--listen", "0.0.0.0:0"})),
              AllOf(HasSubstr("listen is 0.0.0.0:"), HasSubstr("allow_unguarded_connections")));
  EXPECT_THAT(StartFails(TlsFlags({"--listen", "0.0.0.0:0"})),
              AllOf(HasSubstr("listen is 0.0.0.0:"), HasSubstr("allow_unguarded_connections")));
  EXPECT_THAT(StartFails(Flags({"--listen", "127.0.0.1:0", "--health-listen", "0.0.0.0:0"})),
              HasSubstr("health_listen is 0.0.0.0:"));
}

TEST_F(Unguarded, ASettingAllowsIt) {
  UseOtherGrpc();
  ServerProcess server(
      TlsFlags({"--listen", "0.0.0.0:0", "--allow-unguarded-connections", "true"}));
  EXPECT_EQ(server.Metric(kTls), 0);
  EXPECT_THAT(Log(server), HasSubstr("CONNECTIONS ARE NOT GUARDED (tls): gRPC "));
}

}  // namespace
}  // namespace beamline::unguarded_test
