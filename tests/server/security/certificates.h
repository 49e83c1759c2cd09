// Certificates that a test makes for itself.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace beamline {

// PEM of a certificate and of its key.
struct CertificateAndKey {
  std::string certificate;
  std::string key;
};

// An authority of its own, which issues certificates for 127.0.0.1 and localhost.
class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);
  ~TestAuthority();

  const std::string& certificate() const { return own_.certificate; }
  // Valid from `begin` to `end`, of now.
  CertificateAndKey Issue(const std::string& name,
                          std::chrono::seconds begin = -std::chrono::hours(1),
                          std::chrono::seconds end = std::chrono::hours(1)) const;
  // With a key of RSA that is shorter than OpenSSL serves with.
  CertificateAndKey IssueShort(const std::string& name) const;

 private:
  struct Signer;
  std::unique_ptr<Signer> signer_;
  CertificateAndKey own_;
};

// The key of PEM, enciphered with a passphrase.
std::string WithPassphrase(const std::string& key, const std::string& passphrase);

// In place of the file, as tools do that renew certificates: whoever opens it gets the old text or
// the new one.
void ReplaceFile(const std::string& path, const std::string& text);

}  // namespace beamline
