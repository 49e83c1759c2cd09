// The server's standard error: every line is a line of its log, whatever clients send and whatever
// the libraries below it have to say.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "client/client.h"
#include "tests/e2e/server_process.h"

namespace beamline::log_test {
namespace {

using testing::HasSubstr;

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(30)};

// Sends bytes that are no HTTP/2 and waits for the server to close.
void SendNonsense(const std::string& server, const std::string& bytes) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(server.substr(server.rfind(':') + 1))));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  const timeval patience = {.tv_sec = 5, .tv_usec = 0};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  static_cast<void>(send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL));
  char byte = 0;
  while (recv(fd, &byte, 1, 0) > 0) {
  }
  close(fd);
}

TEST(Log, EveryLineHasItsForm) {
  ServerProcess server({"--log-level", "debug", "--max-receive-bytes", "4096"});
  Client client({.address = server.address()});
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("ab\xFF");
  request.set_request_id("bytes\n2026 error feigned");
  EXPECT_EQ(client.Generate(request, kSoon).status().code(), absl::StatusCode::kInvalidArgument);
  const std::vector<v1::GenerateRequest> many(2, request);
  for (const auto& answer : client.GenerateMany(many, kSoon)) {
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  }
  request.mutable_prompt()->set_text(std::string(10000, 'x'));
  EXPECT_EQ(client.Generate(request, kSoon).status().code(), absl::StatusCode::kResourceExhausted);
  SendNonsense(server.address(), "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  SendNonsense(server.address(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(100, '\xFF'));
  const std::string metrics = server.metrics_url();
  SendNonsense(metrics.substr(0, metrics.rfind('/')), "nonsense\r\n\r\n");
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  const std::regex form(
      "\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}[+-]\\d\\d:\\d\\d "
      "(debug|info|warning|error) .*");
  std::istringstream lines(server.process().err());
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(std::regex_match(line, form)) << line;
  }
  EXPECT_THAT(server.process().err(), HasSubstr("request_id=\"bytes\\n2026 error feigned\""));
}

TEST(Log, EveryLineIsAnObjectAsJson) {
  ServerProcess server({"--log-level", "debug", "--log-format", "json", "--log-requests", "all"});
  Client client({.address = server.address()});
  v1::GenerateRequest request;
  request.set_model("write-en");
  request.mutable_prompt()->set_text("The server");
  request.mutable_limits()->set_max_new_tokens(4);
  request.set_request_id("answered \xC3\xA4");
  EXPECT_TRUE(client.Generate(request, kSoon).ok());
  SendNonsense(server.address(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string(100, '\xFF'));
  server.process().Signal(SIGTERM);
  EXPECT_EQ(server.process().Wait(), 0);
  std::istringstream lines(server.process().err());
  int num_requests = 0;
  for (std::string line; std::getline(lines, line);) {
    const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_TRUE(object.contains("time") && object.contains("level")) << line;
    if (object.value("event", "") != "request") continue;
    ++num_requests;
    EXPECT_EQ(object["request_id"], "answered \xC3\xA4");
    EXPECT_EQ(object["code"], "OK");
    EXPECT_EQ(object["level"], "info");
    EXPECT_EQ(object["generated_tokens"], 4);
    EXPECT_GT(object["prompt_tokens"], 0);
    EXPECT_GE(object["seconds"], object["first_token_seconds"]);
    EXPECT_GE(object["first_token_seconds"], object["queue_seconds"]);
  }
  EXPECT_EQ(num_requests, 1);
}

TEST(Log, TheCommandLineSaysNothingOfItsLibraries) {
  ChildProcess program(BEAMLINE_CLI_BINARY, {"--address", SharedServer().address(), "generate",
                                             "--model", "write-en", "ab\xFF"});
  EXPECT_EQ(program.Wait(), 2);
  EXPECT_THAT(program.err(), testing::StartsWith("beamline: "));
  EXPECT_THAT(program.err(), HasSubstr("UTF-8"));
  EXPECT_THAT(program.err(), testing::Not(HasSubstr("libprotobuf")));
}

}  // namespace
}  // namespace beamline::log_test
