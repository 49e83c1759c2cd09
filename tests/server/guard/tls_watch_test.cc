#include "server/guard/tls_watch.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "openssl/ssl.h"

namespace beamline::tls_watch_test {
namespace {

// Notes what becomes of it.
class Noted final : public TlsHandshake {
 public:
  explicit Noted(int& num_over) : num_over_(num_over) {}
  ~Noted() override { ++num_over_; }
  void SetFinished() override {}

 private:
  int& num_over_;
};

TEST(TlsHandOver, NothingIsClaimedThatIsNotHandedOver) {
  EXPECT_EQ(TlsHandOver::Claim().flood, nullptr);
}

TEST(TlsHandOver, GivesWhatItHasOnce) {
  int num_over = 0;
  const auto flood = std::make_shared<ConnectionFlood>();
  {
    const TlsHandOver hand_over({flood, std::make_unique<Noted>(num_over)});
    const TlsArrival claimed = TlsHandOver::Claim();
    EXPECT_EQ(claimed.flood, flood);
    EXPECT_NE(claimed.handshake, nullptr);
    EXPECT_EQ(TlsHandOver::Claim().flood, nullptr);
    EXPECT_EQ(num_over, 0);
  }
  EXPECT_EQ(num_over, 1);
  EXPECT_EQ(TlsHandOver::Claim().flood, nullptr);
}

TEST(TlsHandOver, GivesUpWhatIsNotClaimed) {
  int num_over = 0;
  { const TlsHandOver hand_over({nullptr, std::make_unique<Noted>(num_over)}); }
  EXPECT_EQ(num_over, 1);
}

// OpenSSL's connection keeps it until it goes.
TEST(TlsHandOver, BelongsToTheConnectionThatIsMade) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context(SSL_CTX_new(TLS_server_method()),
                                                                  SSL_CTX_free);
  int num_over = 0;
  SSL* connection = nullptr;
  {
    const TlsHandOver hand_over(
        {std::make_shared<ConnectionFlood>(), std::make_unique<Noted>(num_over)});
    connection = SSL_new(context.get());
    EXPECT_EQ(TlsHandOver::Claim().flood, nullptr);
  }
  EXPECT_EQ(num_over, 0);
  SSL_free(connection);
  EXPECT_EQ(num_over, 1);
}

}  // namespace
}  // namespace beamline::tls_watch_test
