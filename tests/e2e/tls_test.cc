// TLS by the programs' flags: server, command line, load tester and health check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "fmt/format.h"
#include "tests/e2e/server_process.h"
#include "tests/scratch_path.h"
#include "tests/server/security/certificates.h"

namespace beamline {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

struct Result {
  int status = 0;
  std::string out;
  std::string err;
};

Result RunToEnd(const char* program, const std::vector<std::string>& arguments) {
  ChildProcess process(program, arguments);
  const int status = process.Wait();
  return {status, process.out(), process.err()};
}

class Tls : public testing::Test {
 protected:
  Tls() {
    ReplaceFile(ScratchPath("ca"), authority_.certificate());
    for (const char* name : {"server", "client"}) {
      const CertificateAndKey pair = authority_.Issue(name);
      ReplaceFile(ScratchPath(name), pair.certificate);
      ReplaceFile(ScratchPath(name) + ".key", pair.key);
    }
  }

  static std::vector<std::string> Server(const std::vector<std::string>& more = {}) {
    std::vector<std::string> flags = {"--model",
                                      "embed-en=" BEAMLINE_SOURCE_DIR "/models/embed-en",
                                      "--tls-certificate-file",
                                      ScratchPath("server"),
                                      "--tls-key-file",
                                      ScratchPath("server.key")};
    flags.insert(flags.end(), more.begin(), more.end());
    return flags;
  }
  static Result Embed(const std::string& address, const std::vector<std::string>& flags) {
    std::vector<std::string> arguments = {"--address", address, "--output", "csv"};
    arguments.insert(arguments.end(), flags.begin(), flags.end());
    arguments.insert(arguments.end(), {"encode", "--model", "embed-en", "a mail server"});
    return RunToEnd(BEAMLINE_CLI_BINARY, arguments);
  }

  const TestAuthority authority_{"authority"};
};

TEST_F(Tls, AnswersAreThoseOfPlainText) {
  ServerProcess server(Server());
  const Result plain = Embed(SharedServer().address(), {});
  const Result encrypted = Embed(server.address(), {"--ca", ScratchPath("ca")});
  EXPECT_EQ(encrypted.status, 0) << encrypted.err;
  EXPECT_EQ(encrypted.out, plain.out);
  EXPECT_GT(plain.out.size(), 1000u);
  const int port = server.port();
  const Result named = Embed(fmt::format("dns:///localhost:{}", port),
                             {"--tls", "--ca", ScratchPath("ca"), "--server-name", "localhost"});
  EXPECT_EQ(named.status, 0) << named.err;
  // The system's authorities do not know it.
  EXPECT_EQ(Embed(server.address(), {"--tls"}).status, 1);
  const Result without = Embed(server.address(), {});
  EXPECT_EQ(without.status, 1);
  EXPECT_THAT(without.err, HasSubstr("may speak TLS where this client does not"));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  EXPECT_THAT(server.process().err(),
              HasSubstr("its client speaks without TLS, which this server asks for"));
}

TEST_F(Tls, ClientsShowTheirCertificate) {
  ServerProcess server(Server({"--tls-client-ca-file", ScratchPath("ca")}));
  EXPECT_EQ(Embed(server.address(), {"--ca", ScratchPath("ca")}).status, 1);
  const Result shown =
      Embed(server.address(), {"--ca", ScratchPath("ca"), "--cert", ScratchPath("client"), "--key",
                               ScratchPath("client.key")});
  EXPECT_EQ(shown.status, 0) << shown.err;
}

TEST_F(Tls, TheLoadTesterSpeaksIt) {
  ServerProcess server(Server());
  const std::vector<std::string> flags = {
      "run",           "--target", server.address(), "--kind", "encode",
      "--concurrency", "2",        "--requests",     "20",     "--verify"};
  std::vector<std::string> with_tls = flags;
  with_tls.insert(with_tls.end(), {"--ca", ScratchPath("ca")});
  const Result sent = RunToEnd(BEAMLINE_LOADTEST_BINARY, with_tls);
  EXPECT_EQ(sent.status, 0) << sent.out << sent.err;
}

TEST_F(Tls, HealthIsAskedByTheSameSettings) {
  ServerProcess server(
      Server({"--tls-client-ca-file", ScratchPath("ca"), "--health-listen", "127.0.0.1:0"}));
  EXPECT_THAT(server.start_line(), HasSubstr(", health 127.0.0.1:"));
  const Result in_tls =
      RunToEnd(BEAMLINE_SERVER_BINARY,
               Server({"--health", server.address(), "--tls-client-ca-file", ScratchPath("ca")}));
  EXPECT_EQ(in_tls.status, 0) << in_tls.err;
  EXPECT_EQ(in_tls.out, "SERVING\n");
  const size_t at = server.start_line().find("health ") + 7;
  const std::string health = server.start_line().substr(at, server.start_line().find(')', at) - at);
  const Result own =
      RunToEnd(BEAMLINE_SERVER_BINARY, Server({"--health", "--health-listen", health}));
  EXPECT_EQ(own.status, 0) << own.err;
  EXPECT_EQ(own.out, "SERVING\n");
  EXPECT_EQ(RunToEnd(BEAMLINE_SERVER_BINARY, {"--health", server.address()}).status, 1);
}

TEST_F(Tls, AServerWithAnExpiredCertificateDoesNotStart) {
  const CertificateAndKey old =
      authority_.Issue("old", -std::chrono::hours(3), -std::chrono::hours(1));
  ReplaceFile(ScratchPath("server"), old.certificate);
  ReplaceFile(ScratchPath("server.key"), old.key);
  const Result end = RunToEnd(BEAMLINE_SERVER_BINARY, Server());
  EXPECT_EQ(end.status, 1);
  EXPECT_EQ(end.out, "");
  EXPECT_THAT(end.err,
              AllOf(StartsWith("beamline-server: tls_certificate_file is '"),
                    HasSubstr("whose certificate (CN=old) expired at "), EndsWith(" UTC\n")));
  EXPECT_EQ(end.err.find('\n'), end.err.size() - 1) << end.err;
}

TEST_F(Tls, FlagsThatDoNotFitAreRefused) {
  const Result half = Embed("127.0.0.1:1", {"--cert", ScratchPath("client")});
  EXPECT_EQ(half.status, 2);
  EXPECT_THAT(half.err, HasSubstr("--key"));
  const Result missing = Embed("127.0.0.1:1", {"--ca", ScratchPath("none")});
  EXPECT_EQ(missing.status, 2);
  EXPECT_THAT(missing.err,
              HasSubstr("--ca is '" + ScratchPath("none") + "', which cannot be read"));
  const Result key = Embed("127.0.0.1:1", {"--ca", ScratchPath("client.key")});
  EXPECT_EQ(key.status, 2);
  EXPECT_THAT(key.err, HasSubstr("which holds no CERTIFICATE; accepted: a file of PEM"));
}

}  // namespace
}  // namespace beamline
