#include "tests/server/security/certificates.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509v3.h"

namespace beamline {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

std::string TextOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

void AddExtension(X509* certificate, int id, const char* value) {
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, id, value);
  Require(extension != nullptr && X509_add_ext(certificate, extension, -1) == 1);
  X509_EXTENSION_free(extension);
}

X509* Make(const std::string& name, EVP_PKEY* key, X509* issuer, EVP_PKEY* issuer_key,
           std::chrono::seconds begin, std::chrono::seconds end) {
  static std::atomic<int> serial = 1;
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
  X509_gmtime_adj(X509_getm_notBefore(certificate), begin.count());
  X509_gmtime_adj(X509_getm_notAfter(certificate), end.count());
  X509_set_pubkey(certificate, key);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  X509_set_issuer_name(certificate,
                       X509_get_subject_name(issuer == nullptr ? certificate : issuer));
  AddExtension(certificate, NID_basic_constraints,
               issuer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
  if (issuer != nullptr) {
    AddExtension(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  }
  Require(X509_sign(certificate, issuer_key, EVP_sha256()) > 0);
  return certificate;
}

CertificateAndKey ToPem(X509* certificate, EVP_PKEY* key) {
  BIO* const certificate_text = BIO_new(BIO_s_mem());
  BIO* const key_text = BIO_new(BIO_s_mem());
  Require(PEM_write_bio_X509(certificate_text, certificate) == 1);
  Require(PEM_write_bio_PrivateKey(key_text, key, nullptr, nullptr, 0, nullptr, nullptr) == 1);
  return {TextOf(certificate_text), TextOf(key_text)};
}

}  // namespace

struct TestAuthority::Signer {
  explicit Signer(const std::string& name)
      : key(EVP_EC_gen("P-256")),
        certificate(Make(name, key, nullptr, key, -std::chrono::hours(1), std::chrono::hours(1))) {}
  ~Signer() {
    X509_free(certificate);
    EVP_PKEY_free(key);
  }

  EVP_PKEY* key;
  X509* certificate;
};

TestAuthority::TestAuthority(const std::string& name)
    : signer_(std::make_unique<Signer>(name)), own_(ToPem(signer_->certificate, signer_->key)) {}

TestAuthority::~TestAuthority() = default;

CertificateAndKey TestAuthority::Issue(const std::string& name, std::chrono::seconds begin,
                                       std::chrono::seconds end) const {
  EVP_PKEY* const key = EVP_EC_gen("P-256");
  X509* const certificate = Make(name, key, signer_->certificate, signer_->key, begin, end);
  CertificateAndKey issued = ToPem(certificate, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return issued;
}

CertificateAndKey TestAuthority::IssueShort(const std::string& name) const {
  constexpr size_t kBits = 512;
  EVP_PKEY* const key = EVP_RSA_gen(kBits);
  Require(key != nullptr);
  X509* const certificate = Make(name, key, signer_->certificate, signer_->key,
                                 -std::chrono::hours(1), std::chrono::hours(1));
  CertificateAndKey issued = ToPem(certificate, key);
  X509_free(certificate);
  EVP_PKEY_free(key);
  return issued;
}

std::string WithPassphrase(const std::string& key, const std::string& passphrase) {
  BIO* const plain = BIO_new_mem_buf(key.data(), static_cast<int>(key.size()));
  EVP_PKEY* const read = PEM_read_bio_PrivateKey(plain, nullptr, nullptr, nullptr);
  Require(read != nullptr);
  BIO* const text = BIO_new(BIO_s_mem());
  Require(PEM_write_bio_PrivateKey(text, read, EVP_aes_256_cbc(),
                                   reinterpret_cast<const unsigned char*>(passphrase.data()),
                                   static_cast<int>(passphrase.size()), nullptr, nullptr) == 1);
  EVP_PKEY_free(read);
  BIO_free(plain);
  return TextOf(text);
}

void ReplaceFile(const std::string& path, const std::string& text) {
  std::ofstream(path + ".new") << text;
  std::filesystem::rename(path + ".new", path);
}

}  // namespace beamline
