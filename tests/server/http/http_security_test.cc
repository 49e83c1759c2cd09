// Who may call over HTTP, and TLS on its port.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>

#include "fmt/format.h"
#include "openssl/bio.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"
#include "server/security/identities.h"
#include "tests/scratch_path.h"
#include "tests/server/http/http_fixture.h"
#include "tests/server/security/certificates.h"
#include "tests/server/security/token_hash.h"

namespace beamline::http_security_test {
namespace {

using testing::HasSubstr;

struct Free {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(BIO* bio) const { BIO_free_all(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};

std::unique_ptr<BIO, Free> Reader(const std::string& pem) {
  return std::unique_ptr<BIO, Free>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

class HttpSecurityTest : public HttpTest {
 protected:
  void ServeIdentities() {
    ReplaceFile(config_.identity_file = ScratchPath("identities"),
                "alice inference " + HashOf("token-of-alice") + "\nops admin " +
                    HashOf("token-of-ops") + "\nbatch inference certificate\n");
  }
  void ServeTls(bool asks_clients) {
    const CertificateAndKey own = authority_.Issue("server");
    ReplaceFile(config_.tls_certificate_file = ScratchPath("certificate"), own.certificate);
    ReplaceFile(config_.tls_key_file = ScratchPath("key"), own.key);
    if (asks_clients) {
      ReplaceFile(config_.tls_client_ca_file = ScratchPath("clients"), clients_.certificate());
    }
    ServeHttp(config_);
  }
  // What a request over TLS gets, with a client certificate of that name where there is one.
  std::string AskOverTls(const std::string& request, const std::string& name = "",
                         std::string* server = nullptr) const {
    return AskWith(name.empty() ? CertificateAndKey{} : clients_.Issue(name), request, server);
  }
  std::string AskWith(const CertificateAndKey& own, const std::string& request,
                      std::string* server = nullptr) const {
    const std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_client_method()));
    const std::unique_ptr<X509, Free> root(
        PEM_read_bio_X509(Reader(authority_.certificate()).get(), nullptr, nullptr, nullptr));
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), root.get());
    SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
    if (!own.key.empty()) {
      const std::unique_ptr<X509, Free> certificate(
          PEM_read_bio_X509(Reader(own.certificate).get(), nullptr, nullptr, nullptr));
      const std::unique_ptr<EVP_PKEY, Free> key(
          PEM_read_bio_PrivateKey(Reader(own.key).get(), nullptr, nullptr, nullptr));
      SSL_CTX_use_certificate(context.get(), certificate.get());
      SSL_CTX_use_PrivateKey(context.get(), key.get());
    }
    const std::unique_ptr<BIO, Free> bio(BIO_new_ssl_connect(context.get()));
    BIO_set_conn_hostname(bio.get(), fmt::format("127.0.0.1:{}", port_).c_str());
    if (BIO_do_connect(bio.get()) <= 0) return "no connection";
    if (server != nullptr) {
      SSL* ssl = nullptr;
      BIO_get_ssl(bio.get(), &ssl);
      const std::unique_ptr<X509, Free> shown(SSL_get_peer_certificate(ssl));
      std::array<char, 256> text{};
      X509_NAME_oneline(X509_get_subject_name(shown.get()), text.data(), text.size());
      *server = text.data();
    }
    BIO_write(bio.get(), request.data(), static_cast<int>(request.size()));
    std::string reply;
    std::array<char, 4096> bytes;
    for (int got; (got = BIO_read(bio.get(), bytes.data(), bytes.size())) > 0;) {
      reply.append(bytes.data(), static_cast<size_t>(got));
    }
    return reply;
  }
  static std::string LastRequest(const std::string& path) {
    return HttpClient::Format("GET", path, "", {{"Connection", "close"}});
  }

  const TestAuthority authority_{"authority"};
  const TestAuthority clients_{"authority of clients"};
  ServerConfig config_;
};

TEST_F(HttpSecurityTest, PagesOfTheOperatorNeedAToken) {
  ServeIdentities();
  config_.http_paths = "metrics, version";
  ServeHttp(config_);
  for (const char* path : {"/metrics", "/version"}) {
    EXPECT_EQ(Get(path).status, 401) << path;
    for (const char* token : {"token-of-alice", "token-of-ops"}) {
      EXPECT_EQ(Get(path, {{"Authorization", std::string("Bearer ") + token}}).status, 200) << path;
    }
  }
}

TEST_F(HttpSecurityTest, AsksForTokens) {
  ServeIdentities();
  ServeHttp(config_);
  const std::string body = R"({"input":"a"})";
  HttpReply reply = Post("/v1/embeddings", body);
  EXPECT_EQ(reply.status, 401);
  EXPECT_EQ(reply.headers.at("www-authenticate"), "Bearer");
  EXPECT_EQ(reply.error("code"), "invalid_api_key");
  EXPECT_THAT(reply.error("message"), HasSubstr("header authorization"));
  EXPECT_EQ(Post("/v1/embeddings", body, {{"Authorization", "Bearer wrong"}}).status, 401);
  EXPECT_EQ(Post("/v1/embeddings", body, {{"Authorization", "Basic eDp5"}}).status, 401);
  EXPECT_EQ(Post("/v1/embeddings", body, {{"Authorization", "Bearer token-of-ops"}}).status, 403);
  EXPECT_EQ(Post("/v1/embeddings", body, {{"Authorization", "bearer token-of-alice"}}).status, 200);
  EXPECT_EQ(Get("/v1/models").status, 401);
  EXPECT_EQ(Get("/v1/models/writer").status, 401);
  EXPECT_EQ(Post("/v1/completions", kPrompt).status, 401);
  EXPECT_EQ(Post("/v1/chat/completions", "{}").status, 401);
  EXPECT_EQ(Get("/v1/models", {{"Authorization", "Bearer token-of-ops"}}).status, 200);
  EXPECT_EQ(Get("/health").status, 200);
  EXPECT_GE(Counter("beamline_rejected_total", "reason=unauthenticated"), 6);
  EXPECT_EQ(Counter("beamline_rejected_total", "reason=permission_denied"), 1);
  // Nothing of a body is read for nobody.
  HttpClient asking(port_);
  asking.Send(
      "POST /v1/embeddings HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(asking.Read().status, 401);
}

TEST_F(HttpSecurityTest, TheIdentityIsTheClientAndSaltsTheCache) {
  ServeIdentities();
  ServeHttp(config_);
  HttpClient client(port_);
  client.Send(HttpClient::Format(
      "POST", "/v1/completions", kPrompt,
      {{"Authorization", "Bearer token-of-alice"}, {"x-client-id", "somebody"}}));
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_EQ(request.request.client, "alice");
  EXPECT_EQ(request.request.cache_salt, SaltOf("alice", ""));
  engine_->Finish(request, TextResult("t"));
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpSecurityTest, WithoutIdentitiesTheClientNamesItself) {
  ServeHttp();
  HttpClient client(port_);
  client.Send(
      HttpClient::Format("POST", "/v1/completions", kPrompt, {{"x-client-id", "somebody"}}));
  const FakeRequest request = engine_->WaitForRequest(0);
  EXPECT_EQ(request.request.client, "somebody");
  engine_->Finish(request, TextResult("t"));
  EXPECT_EQ(client.Read().status, 200);
}

TEST_F(HttpSecurityTest, SpeaksTlsWhereTheServerDoes) {
  ServeTls(false);
  EXPECT_THAT(AskOverTls(LastRequest("/health")), HasSubstr("SERVING"));
  const std::string body = std::string(200000, ' ') + R"({"input":"a"})";
  EXPECT_THAT(
      AskOverTls(HttpClient::Format("POST", "/v1/embeddings", body, {{"Connection", "close"}})),
      HasSubstr("\"embedding\":[0,1]"));
  HttpClient plain(port_);
  plain.Send(LastRequest("/health"));
  EXPECT_TRUE(plain.IsClosed());
  EXPECT_EQ(plain.Read().status, 0);
  EXPECT_TRUE(ConnectionsBecome(0));
}

TEST_F(HttpSecurityTest, NewConnectionsGetTheNewCertificate) {
  ServeTls(false);
  std::string shown;
  AskOverTls(LastRequest("/health"), "", &shown);
  EXPECT_THAT(shown, HasSubstr("CN=server"));
  const CertificateAndKey next = authority_.Issue("renewed");
  ReplaceFile(config_.tls_key_file, next.key);
  ReplaceFile(config_.tls_certificate_file, next.certificate);
  for (int i = 0; i < 200 && shown.find("renewed") == std::string::npos; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    AskOverTls(LastRequest("/health"), "", &shown);
  }
  EXPECT_THAT(shown, HasSubstr("CN=renewed"));
}

TEST_F(HttpSecurityTest, SpeaksTheNewVersionsAlone) {
  ServeTls(false);
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION, TLS1_2_VERSION, TLS1_3_VERSION}) {
    const std::unique_ptr<SSL_CTX, Free> context(SSL_CTX_new(TLS_client_method()));
    SSL_CTX_set_security_level(context.get(), 0);  // so that the client would speak the old ones
    ASSERT_EQ(SSL_CTX_set_min_proto_version(context.get(), version), 1);
    ASSERT_EQ(SSL_CTX_set_max_proto_version(context.get(), version), 1);
    const std::unique_ptr<BIO, Free> connection(BIO_new_ssl_connect(context.get()));
    BIO_set_conn_hostname(connection.get(), fmt::format("127.0.0.1:{}", port_).c_str());
    EXPECT_EQ(BIO_do_connect(connection.get()) == 1, version >= TLS1_2_VERSION) << version;
  }
}

// A certificate that names somebody who may call is of no use where it is another authority's, or
// its time is over.
TEST_F(HttpSecurityTest, AClientsCertificateMustBeOfItsAuthorityAndValidNow) {
  ServeIdentities();
  ServeTls(true);
  const std::string embed =
      HttpClient::Format("POST", "/v1/embeddings", R"({"input":"a"})", {{"Connection", "close"}});
  EXPECT_THAT(AskWith(clients_.Issue("batch"), embed), HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(AskWith(authority_.Issue("batch"), embed), testing::Not(HasSubstr("HTTP/1.1")));
  const CertificateAndKey old =
      clients_.Issue("batch", -std::chrono::hours(2), -std::chrono::hours(1));
  EXPECT_THAT(AskWith(old, embed), testing::Not(HasSubstr("HTTP/1.1")));
}

TEST_F(HttpSecurityTest, KnowsClientsByTheirCertificates) {
  ServeIdentities();
  ServeTls(true);
  const std::string embed =
      HttpClient::Format("POST", "/v1/embeddings", R"({"input":"a"})", {{"Connection", "close"}});
  EXPECT_THAT(AskOverTls(embed, "batch"), HasSubstr("HTTP/1.1 200"));
  EXPECT_THAT(AskOverTls(embed, "stranger"), HasSubstr("HTTP/1.1 401"));
}

// Who has no certificate is not heard where one is asked for, token or not.
TEST_F(HttpSecurityTest, AClientsCertificateIsNeededUnlessItIsLeftToTheClient) {
  ServeIdentities();
  ServeTls(true);
  const std::string embed =
      HttpClient::Format("POST", "/v1/embeddings", R"({"input":"a"})",
                         {{"Connection", "close"}, {"Authorization", "Bearer token-of-alice"}});
  EXPECT_THAT(AskOverTls(embed), testing::Not(HasSubstr("HTTP/1.1")));
  EXPECT_THAT(AskOverTls(embed, "stranger"), HasSubstr("HTTP/1.1 200"));
  config_.tls_require_client_certificate = false;
  ServeTls(true);
  EXPECT_THAT(AskOverTls(embed), HasSubstr("HTTP/1.1 200"));
}

}  // namespace
}  // namespace beamline::http_security_test
