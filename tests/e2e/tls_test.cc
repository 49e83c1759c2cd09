// TLS by the programs' flags: server, command line, load tester and health check.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "tests/e2e/server_process.h"
#include "tests/scratch_path.h"
#include "tests/server/security/certificates.h"

namespace beamline::tls_test {
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

// Of the token "test".
constexpr char kIdentities[] =
    "alice inference "
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08\n";

TEST_F(Tls, ProgramsShowTheirToken) {
  ReplaceFile(ScratchPath("identities"), kIdentities);
  ReplaceFile(ScratchPath("token"), "test\n");
  ReplaceFile(ScratchPath("other"), "other\n");
  ServerProcess server(Server({"--identity-file", ScratchPath("identities")}));
  const std::vector<std::string> alice = {"--ca", ScratchPath("ca"), "--token-file",
                                          ScratchPath("token")};
  const Result known = Embed(server.address(), alice);
  EXPECT_EQ(known.status, 0) << known.err;
  const Result none = Embed(server.address(), {"--ca", ScratchPath("ca")});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, StartsWith("beamline: UNAUTHENTICATED: there is no token"));
  const Result unknown =
      Embed(server.address(), {"--ca", ScratchPath("ca"), "--token-file", ScratchPath("other")});
  EXPECT_THAT(unknown.err, StartsWith("beamline: UNAUTHENTICATED: the token is none"));
  const Result wrong = Embed(
      server.address(), {"--ca", ScratchPath("ca"), "--token-file", ScratchPath("identities")});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("which holds no token; accepted: one word of ASCII"));
  const Result load =
      RunToEnd(BEAMLINE_LOADTEST_BINARY, {"run", "--target", server.address(), "--kind", "encode",
                                          "--concurrency", "2", "--requests", "20", "--ca",
                                          ScratchPath("ca"), "--token-file", ScratchPath("token")});
  EXPECT_EQ(load.status, 0) << load.out << load.err;
  // Health is for everybody, and the contract is told to nobody.
  EXPECT_EQ(RunToEnd(BEAMLINE_SERVER_BINARY, Server({"--health", server.address()})).status, 0);
  grpc::GenericStub stub(grpc::CreateChannel(
      server.address(), grpc::SslCredentials({.pem_root_certs = authority_.certificate()})));
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(
      &context, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      grpc::ByteBuffer(), &queue);
  call->StartCall();
  grpc::ByteBuffer response;
  grpc::Status status;
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  const auto until = std::chrono::system_clock::now() + std::chrono::seconds(20);
  ASSERT_EQ(queue.AsyncNext(&tag, &ok, until), grpc::CompletionQueue::GOT_EVENT);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

TEST_F(Tls, AServerWithFaultyIdentitiesDoesNotStart) {
  ReplaceFile(ScratchPath("identities"), "alice inference secret\n");
  const Result end =
      RunToEnd(BEAMLINE_SERVER_BINARY, Server({"--identity-file", ScratchPath("identities")}));
  EXPECT_EQ(end.status, 1);
  EXPECT_EQ(end.err, "beamline-server: identity_file is '" + ScratchPath("identities") +
                         "', line 1: the third word is neither sha256: and 64 hexadecimal digits "
                         "nor certificate\n");
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
}  // namespace beamline::tls_test
