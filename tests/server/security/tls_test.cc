// A server that speaks TLS, and its clients. Long because each way in which a handshake or a
// certificate may be wrong is a test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/client.h"
#include "grpcpp/grpcpp.h"
#include "openssl/bio.h"
#include "openssl/ssl.h"
#include "server/net/handshakes.h"
#include "server/net/listening.h"
#include "server/process/tls_config.h"
#include "server/services/health_check.h"
#include "spdlog/sinks/ostream_sink.h"
#include "spdlog/spdlog.h"
#include "tests/scratch_path.h"
#include "tests/server/net/raw_connection.h"
#include "tests/server/security/certificates.h"
#include "tests/server/service_fixture.h"
#include "tests/server/telemetry/log/log_capture.h"

namespace beamline::tls_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TlsTest : public ServiceTest {
 protected:
  void WriteCertificate(const CertificateAndKey& pair) const {
    ReplaceFile(config_.tls_key_file, pair.key);
    ReplaceFile(config_.tls_certificate_file, pair.certificate);
  }
  void ServeTls(bool asks_clients = false) {
    WriteCertificate(authority_.Issue("server"));
    if (asks_clients) {
      config_.tls_client_ca_file = ScratchPath("clients");
      ReplaceFile(config_.tls_client_ca_file, clients_.certificate());
    }
    Serve(config_);
  }
  absl::Status CallWith(std::optional<TlsOptions> tls) const {
    Client client({.address = server_->address(), .tls = std::move(tls)});
    return client.ListModels(kSoon).status();
  }
  TlsOptions Trusting() const { return {.root_certificates = authority_.certificate()}; }
  TlsOptions WithCertificateOf(const TestAuthority& authority) const {
    const CertificateAndKey own = authority.Issue("client");
    return {.root_certificates = authority_.certificate(),
            .certificate_chain = own.certificate,
            .private_key = own.key};
  }

  const TestAuthority authority_{"authority"};
  const TestAuthority clients_{"authority of clients"};
  ServerConfig config_ = {.tls_certificate_file = ScratchPath("certificate"),
                          .tls_key_file = ScratchPath("key")};
};

TEST_F(TlsTest, AnswersWhoTrustsIt) {
  ServeTls();
  Client client({.address = server_->address(), .tls = Trusting()});
  v1::EncodeRequest request;
  request.add_inputs()->set_text("a");
  const auto answer = client.Encode(request, kSoon);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->embeddings(0).values(1), 1.0f);
  const std::vector<v1::EncodeRequest> many(50, request);
  for (const auto& one : client.EncodeMany(many, kSoon)) EXPECT_TRUE(one.ok()) << one.status();
  EXPECT_TRUE(*client.Health("writer", kSoon));
}

TEST_F(TlsTest, ClientsCheckWhoAnswers) {
  ServeTls();
  EXPECT_THAT(
      std::string(CallWith(TlsOptions{.root_certificates = clients_.certificate()}).message()),
      AllOf(HasSubstr("failed to connect"), HasSubstr("of no authority that this client trusts")));
  TlsOptions other = Trusting();
  other.server_name = "elsewhere.example";
  EXPECT_TRUE(absl::IsUnavailable(CallWith(other)));
  other.server_name = "localhost";
  EXPECT_TRUE(CallWith(other).ok());
}

TEST_F(TlsTest, PlainTextAndTlsDoNotMix) {
  ServeTls();
  EXPECT_THAT(std::string(CallWith(std::nullopt).message()),
              HasSubstr("(the server there may speak TLS where this client does not"));
  EXPECT_GT(Counter("beamline_connections_refused_total", "reason=protocol"), 0);
  Serve();
  EXPECT_THAT(std::string(CallWith(Trusting()).message()), HasSubstr("or the other way round"));
}

TEST_F(TlsTest, AsksClientsForCertificates) {
  ServeTls(true);
  EXPECT_TRUE(CallWith(WithCertificateOf(clients_)).ok());
  EXPECT_THAT(std::string(CallWith(Trusting()).message()),
              HasSubstr("or ask for a client certificate)"));
  EXPECT_TRUE(absl::IsUnavailable(CallWith(WithCertificateOf(authority_))));
}

// Of the right authority, and of no use any more.
TEST_F(TlsTest, AClientsCertificateMustBeValidNow) {
  ServeTls(true);
  const CertificateAndKey old =
      clients_.Issue("client", -std::chrono::hours(2), -std::chrono::hours(1));
  TlsOptions tls = Trusting();
  tls.certificate_chain = old.certificate;
  tls.private_key = old.key;
  EXPECT_TRUE(absl::IsUnavailable(CallWith(tls)));
  EXPECT_TRUE(CallWith(WithCertificateOf(clients_)).ok());
}

TEST_F(TlsTest, SpeaksTheNewVersionsAlone) {
  ServeTls();
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION}) {
    const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(
        SSL_CTX_new(TLS_client_method()), SSL_CTX_free);
    SSL_CTX_set_security_level(context.get(), 0);  // so that the client would speak the old ones
    constexpr unsigned char kProtocol[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context.get(), kProtocol, sizeof(kProtocol));
    ASSERT_EQ(SSL_CTX_set_min_proto_version(context.get(), version), 1);
    ASSERT_EQ(SSL_CTX_set_max_proto_version(context.get(), version), 1);
    const std::unique_ptr<BIO, decltype(&BIO_free_all)> connection(
        BIO_new_ssl_connect(context.get()), BIO_free_all);
    BIO_set_conn_hostname(connection.get(), server_->address().c_str());
    EXPECT_EQ(BIO_do_connect(connection.get()) == 1, version >= TLS1_2_VERSION) << version;
  }
}

// What a client of gRPC's begins with.
std::string ClientHello() {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  const std::unique_ptr<SSL, decltype(&SSL_free)> client(SSL_new(context.get()), SSL_free);
  constexpr unsigned char kProtocol[] = {2, 'h', '2'};
  SSL_set_alpn_protos(client.get(), kProtocol, sizeof(kProtocol));
  BIO* const sent = BIO_new(BIO_s_mem());
  SSL_set_bio(client.get(), BIO_new(BIO_s_mem()), sent);  // owns both
  SSL_connect(client.get());
  std::string hello(BIO_ctrl_pending(sent), '\0');
  BIO_read(sent, hello.data(), static_cast<int>(hello.size()));
  return hello;
}

// Connections that begin a handshake, and say nothing more at some point of it.
TEST_F(TlsTest, HandshakesThatDoNotEndAreEnded) {
  config_.handshake_timeout_ms = 1000;
  ServeTls();
  const std::string hello = ClientHello();
  ASSERT_GT(hello.size(), 100U);
  std::vector<std::unique_ptr<BIO, decltype(&BIO_free_all)>> connections;
  for (int i = 0; i < 60; ++i) {
    auto& one = connections.emplace_back(BIO_new_connect(server_->address().c_str()), BIO_free_all);
    ASSERT_EQ(BIO_do_connect(one.get()), 1);
    const std::array<size_t, 3> sizes = {3, hello.size() / 2, hello.size()};
    const auto size = static_cast<int>(sizes[static_cast<size_t>(i) % sizes.size()]);
    ASSERT_EQ(BIO_write(one.get(), hello.data(), size), size);
  }
  EXPECT_TRUE(CallWith(Trusting()).ok());
  for (const auto& one : connections) {
    int fd = -1;
    BIO_get_fd(one.get(), &fd);
    const timeval patience = {.tv_sec = 60, .tv_usec = 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    std::array<char, 4096> read;
    ssize_t size = 0;
    while ((size = recv(fd, read.data(), read.size(), 0)) > 0) {  // the server's part of it
    }
    ASSERT_TRUE(size == 0 || errno == ECONNRESET) << errno;  // another minute for each of the rest
  }
  EXPECT_TRUE(CallWith(Trusting()).ok());
}

// They are bounded in number, and keep nobody else out.
TEST_F(TlsTest, FewHandshakesAreUnfinishedAtOnce) {
  config_.max_handshakes = 8;
  config_.http_listen = "127.0.0.1:0";
  ServeTls();
  const std::string hello = ClientHello();
  for (const std::string& address : {server_->address(), server_->http_address()}) {
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    const auto begin = std::chrono::steady_clock::now();
    std::vector<RawConnection> flood;
    for (int i = 0; i < 20; ++i) {
      flood.emplace_back(port, "127.0.0.2");
      ASSERT_TRUE(flood.back().Send(hello));
    }
    ASSERT_TRUE(flood[0].IsAnswered());
    ASSERT_TRUE(flood[1].IsAnswered());
    EXPECT_TRUE(CallWith(Trusting()).ok());
    int64_t answered = 2;
    for (size_t i = 2; i < flood.size(); ++i) {
      answered += flood[i].IsAnswered(std::chrono::milliseconds(0)) ? 1 : 0;
    }
    // Two of an address, and those that have had their places since.
    const auto turns = (std::chrono::steady_clock::now() - begin) / Handshakes::kLeastOwed;
    EXPECT_LE(answered, 2 * (1 + turns)) << address;
    EXPECT_TRUE(flood[2].IsAnswered(std::chrono::seconds(60))) << address;  // in its turn
  }
}

// Whoever has finished takes no place.
TEST_F(TlsTest, FinishedHandshakesAreNotCounted) {
  config_.max_handshakes = 1;
  ServeTls();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 5; ++i) {
    clients.push_back(
        std::make_unique<Client>(ClientOptions{.address = server_->address(), .tls = Trusting()}));
    EXPECT_TRUE(clients.back()->ListModels(kSoon).ok());
  }
  for (const auto& client : clients) EXPECT_TRUE(client->ListModels(kSoon).ok());
  EXPECT_EQ(Counter("beamline_connections_refused_total", "reason=displaced"), 0);
}

TEST_F(TlsTest, ACertificateMayBeLeftToTheClient) {
  config_.tls_require_client_certificate = false;
  ServeTls(true);
  EXPECT_TRUE(CallWith(WithCertificateOf(clients_)).ok());
  EXPECT_TRUE(CallWith(Trusting()).ok());
  EXPECT_TRUE(absl::IsUnavailable(CallWith(WithCertificateOf(authority_))));
}

TEST_F(TlsTest, TheAdminAddressSpeaksItToo) {
  config_.admin_listen = "127.0.0.1:0";
  config_.model_root = ScratchPath("");
  ServeTls();
  Client plain({.address = server_->admin_address()});
  EXPECT_TRUE(absl::IsUnavailable(plain.ListModels(kSoon).status()));
  Client admin({.address = server_->admin_address(), .tls = Trusting()});
  EXPECT_TRUE(admin.ListModels(kSoon).ok());
}

TEST_F(TlsTest, HealthIsToldInTlsAndAtAnAddressOfItsOwn) {
  config_.health_listen = "127.0.0.1:0";
  ServeTls(true);
  const auto timeout = std::chrono::milliseconds(20000);
  const std::string health = server_->health_address();
  auto is_serving = AskHealth(health, timeout);
  EXPECT_TRUE(is_serving.ok() && *is_serving) << is_serving.status();
  // Health and nothing else.
  Client plain({.address = health});
  EXPECT_TRUE(absl::IsUnimplemented(plain.ListModels(kSoon).status()));
  EXPECT_TRUE(*plain.Health("writer", kSoon));
  // The server's certificate is of no authority of clients.
  EXPECT_TRUE(
      absl::IsUnavailable(AskHealth(server_->address(), timeout, TlsFilesOf(config_)).status()));
  ReplaceFile(config_.tls_client_ca_file, clients_.certificate() + authority_.certificate());
  config_.health_listen = "off";
  Serve(config_);
  is_serving = AskHealth(server_->address(), timeout, TlsFilesOf(config_));
  EXPECT_TRUE(is_serving.ok() && *is_serving) << is_serving.status();
  EXPECT_EQ(server_->health_address(), "");
}

TEST_F(TlsTest, HealthAtItsOwnAddressFollows) {
  config_.health_listen = "127.0.0.1:0";
  ServeTls();
  Client plain({.address = server_->health_address()});
  EXPECT_TRUE(*plain.Health("", kSoon));
  server_->Drain(std::chrono::milliseconds(20000));
  const auto health = plain.Health("", kSoon);
  EXPECT_TRUE(health.ok() && !*health) << health.status();
}

// Certificates of another authority, again and again, while calls are made over connections that
// stay and over new ones: none fails, and in the end the new certificate is the one that is shown.
TEST_F(TlsTest, NewCertificatesAreTakenUnderLoad) {
  ServeTls();
  const TestAuthority next("next authority");
  const TlsOptions both = {.root_certificates = authority_.certificate() + next.certificate()};
  std::atomic<bool> stop = false;
  std::atomic<int> calls = 0;
  std::vector<std::thread> threads;
  for (const bool stays : {true, true, false, false}) {
    threads.emplace_back([&, stays] {
      Client kept({.address = server_->address(), .tls = both});
      while (!stop) {
        const absl::Status status = stays ? kept.ListModels(kSoon).status() : CallWith(both);
        EXPECT_TRUE(status.ok()) << status;
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int i = 0; i < 2; ++i) {
    const TestAuthority& issuer = i % 2 == 0 ? next : authority_;
    WriteCertificate(issuer.Issue("server"));
    const TlsOptions tls = {.root_certificates = issuer.certificate()};
    while (!CallWith(tls).ok() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    EXPECT_TRUE(CallWith(tls).ok());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(calls, 10);
}

// The metrics tell the first end among the certificates of a file, also of new ones.
TEST_F(TlsTest, TellsWhenCertificatesEnd) {
  constexpr char kMetric[] = "beamline_tls_certificate_expiry_timestamp_seconds";
  const auto in_hours = [](double end) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return (end - std::chrono::duration<double>(now).count()) / 3600;
  };
  ServeTls();
  EXPECT_NEAR(in_hours(Counter(kMetric, "file=server")), 1, 0.1);
  EXPECT_EQ(Counter(kMetric, "file=client_ca"), 0);
  CertificateAndKey chain =
      authority_.Issue("server", -std::chrono::hours(1), std::chrono::hours(9));
  chain.certificate +=
      authority_.Issue("between", -std::chrono::hours(1), std::chrono::hours(5)).certificate;
  WriteCertificate(chain);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (in_hours(Counter(kMetric, "file=server")) < 2 &&
         std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_NEAR(in_hours(Counter(kMetric, "file=server")), 5, 0.1);
  ServeTls(/*asks_clients=*/true);
  EXPECT_GT(in_hours(Counter(kMetric, "file=client_ca")), 0.5);
}

// A client that takes back what it begins, in TLS: it loses its connection, and nobody else does.
TEST_F(TlsTest, WhoFloodsLosesTheConnection) {
  ServeTls();
  Client other({.address = server_->address(), .tls = Trusting()});
  EXPECT_TRUE(other.ListModels(kSoon).ok());
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free);
  constexpr unsigned char kProtocol[] = {2, 'h', '2'};
  SSL_CTX_set_alpn_protos(context.get(), kProtocol, sizeof(kProtocol));
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> connection(BIO_new_ssl_connect(context.get()),
                                                                 BIO_free_all);
  BIO_set_conn_hostname(connection.get(), server_->address().c_str());
  ASSERT_EQ(BIO_do_connect(connection.get()), 1);
  const auto frame = [](char size, char type, char flags, int stream) {
    return std::string{
        0, 0, size, type, flags, 0, 0, static_cast<char>(stream >> 8), static_cast<char>(stream)};
  };
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(0, 4, 0, 0);
  for (int stream = 1; stream < 2400; stream += 2) {
    // ":method: POST" of HPACK's table, and a reset.
    bytes += frame(1, 1, 4, stream) + '\x83' + frame(4, 3, 0, stream) + std::string{0, 0, 0, 8};
  }
  signal(SIGPIPE, SIG_IGN);  // OpenSSL may write to what is closed already
  BIO_write(connection.get(), bytes.data(), static_cast<int>(bytes.size()));
  std::array<char, 4096> read;
  while (BIO_read(connection.get(), read.data(), read.size()) > 0) {
  }
  EXPECT_TRUE(CounterReaches("beamline_connections_refused_total", "reason=flood", 1));
  EXPECT_TRUE(other.ListModels(kSoon).ok());
}

TEST_F(TlsTest, FaultyNewCertificatesChangeNothing) {
  ServeTls();
  const LogCapture log(spdlog::level::err);
  const auto faultless = authority_.Issue("server");
  const std::vector<std::pair<CertificateAndKey, std::string>> faulty = {
      {{faultless.certificate, clients_.Issue("other").key}, "which is not the key of"},
      {authority_.Issue("old", -std::chrono::hours(2), -std::chrono::hours(1)), "expired at"},
      {{"", ""}, "which holds no certificate"}};
  for (const auto& [pair, fault] : faulty) {
    WriteCertificate(pair);
    const auto read = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (log.text().find(fault) == std::string::npos && std::chrono::steady_clock::now() < read) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    EXPECT_THAT(log.text(), HasSubstr(fault));
    EXPECT_TRUE(CallWith(Trusting()).ok());
  }
  const TestAuthority next("next authority");
  WriteCertificate(next.Issue("server"));
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const TlsOptions tls = {.root_certificates = next.certificate()};
  while (!CallWith(tls).ok() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_TRUE(CallWith(tls).ok());
}

TEST(PlainText, IsWarnedOfWhereOthersReachIt) {
  std::ostringstream log;
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>(
      "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(log)));
  for (const char* address : {"127.0.0.1:0", "0.0.0.0:0"}) {
    const auto opened = ListenAt("listen", address);
    ASSERT_TRUE(opened.ok()) << opened.status();
    WarnOfPlainText("listen", *opened);
  }
  spdlog::set_default_logger(before);
  EXPECT_THAT(log.str(), HasSubstr("listen is 0.0.0.0:"));
  EXPECT_THAT(log.str(), HasSubstr(", which other machines reach, WITHOUT TLS: "));
  EXPECT_THAT(log.str(), testing::Not(HasSubstr("127.0.0.1:")));
}

TEST_F(TlsTest, DoesNotStartWithFaultyFiles) {
  WriteCertificate({"", ""});
  config_.listen = "127.0.0.1:0";
  config_.metrics_listen = "off";
  const auto server = Server::Start(config_, std::make_shared<Metrics>(std::vector<ModelOptions>()),
                                    std::make_unique<FakeEngine>());
  EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << server.status();
}

}  // namespace
}  // namespace beamline::tls_test
