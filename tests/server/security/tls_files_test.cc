// What an operator is told of certificates and keys that do not serve.
#include "server/security/tls_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/scratch_path.h"
#include "tests/server/security/certificates.h"

namespace beamline::tls_files_test {
namespace {

using std::chrono::hours;
using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  static std::string FileOf(const std::string& name, const std::string& text) {
    ReplaceFile(ScratchPath(name), text);
    return ScratchPath(name);
  }
  std::string Error(const std::string& certificate, const std::string& key,
                    const std::string& client_ca = "") {
    const TlsFiles files = {.certificate = FileOf("certificate", certificate),
                            .key = FileOf("key", key),
                            .client_ca = client_ca.empty() ? "" : FileOf("ca", client_ca)};
    return std::string(ReadTlsFiles(files).status().message());
  }
  static std::string Named(const std::string& setting, const std::string& file) {
    return setting + " is '" + ScratchPath(file) + "', ";
  }

  const TestAuthority authority_{"authority"};
  const CertificateAndKey own_ = authority_.Issue("server");
};

TEST_F(TlsFilesTest, FaultlessOnesAreTaken) {
  const auto read = ReadTlsFiles(
      {.certificate = FileOf("certificate", own_.certificate + authority_.certificate()),
       .key = FileOf("key", own_.key),
       .client_ca = FileOf("ca", authority_.certificate())});
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->subject, "CN=server");
  EXPECT_EQ(read->key, own_.key);
  EXPECT_EQ(read->client_ca, authority_.certificate());
  const auto left = read->expires - std::chrono::system_clock::now();
  EXPECT_GT(left, std::chrono::minutes(50));
  EXPECT_LT(left, std::chrono::minutes(61));
}

TEST_F(TlsFilesTest, FilesThatAreNotThere) {
  const TlsFiles files = {.certificate = ScratchPath("none"), .key = FileOf("key", own_.key)};
  EXPECT_EQ(
      ReadTlsFiles(files).status().message(),
      Named("tls_certificate_file", "none") + "which cannot be read: No such file or directory");
}

TEST_F(TlsFilesTest, WhatIsNoPem) {
  const std::string certificate = Named("tls_certificate_file", "certificate");
  const std::string key = Named("tls_key_file", "key");
  const std::string ca = Named("tls_client_ca_file", "ca");
  EXPECT_EQ(Error("text", own_.key),
            certificate + "which holds no certificate; accepted: PEM certificates");
  EXPECT_EQ(Error("", own_.key),
            certificate + "which holds no certificate; accepted: PEM certificates");
  EXPECT_EQ(Error(own_.key, own_.key),
            certificate + "which holds no certificate; accepted: PEM certificates");
  EXPECT_THAT(Error(own_.certificate.substr(0, 200), own_.key),
              HasSubstr("whose certificate 1 cannot be read ("));
  EXPECT_THAT(Error(own_.certificate + own_.certificate.substr(0, 200), own_.key),
              HasSubstr("whose certificate 2 cannot be read ("));
  EXPECT_EQ(Error(own_.certificate, "text"),
            key + "which holds no key; accepted: a PEM private key");
  EXPECT_EQ(Error(own_.certificate, own_.certificate),
            key + "which holds no key; accepted: a PEM private key");
  EXPECT_THAT(Error(own_.certificate, own_.key.substr(0, 60) + "\n-----END PRIVATE KEY-----\n"),
              HasSubstr("whose key cannot be read ("));
  EXPECT_EQ(Error(own_.certificate, own_.key, "text"),
            ca + "which holds no certificate; accepted: PEM certificates");
}

TEST_F(TlsFilesTest, AKeyOfAnotherCertificate) {
  EXPECT_EQ(Error(own_.certificate, authority_.Issue("other").key),
            Named("tls_key_file", "key") +
                "which is not the key of the certificate in tls_certificate_file '" +
                ScratchPath("certificate") + "'");
}

TEST_F(TlsFilesTest, AKeyThatNobodyCanUse) {
  EXPECT_EQ(Error(own_.certificate, WithPassphrase(own_.key, "secret")),
            Named("tls_key_file", "key") +
                "whose key needs a passphrase; accepted: a PEM private key without one");
  const CertificateAndKey weak = authority_.IssueShort("weak");
  EXPECT_THAT(Error(weak.certificate, weak.key),
              testing::StartsWith(Named("tls_certificate_file", "certificate") +
                                  "which OpenSSL does not take: "));
}

TEST_F(TlsFilesTest, ACertificateOfAnotherTime) {
  const CertificateAndKey old = authority_.Issue("old", -hours(3), -hours(1));
  EXPECT_THAT(Error(old.certificate, old.key),
              HasSubstr("whose certificate (CN=old) expired at 2"));
  const CertificateAndKey early = authority_.Issue("early", hours(1), hours(3));
  EXPECT_THAT(Error(early.certificate, early.key),
              HasSubstr("whose certificate (CN=early) is valid only from 2"));
}

TEST(TimeText, IsOfTheWholeWorld) {
  EXPECT_EQ(TimeText(std::chrono::system_clock::from_time_t(86399)), "1970-01-01 23:59:59 UTC");
}

}  // namespace
}  // namespace beamline::tls_files_test
