#include "server/guard/test_certificate.h"

#include <memory>

#include "openssl/bio.h"
#include "openssl/evp.h"
#include "openssl/pem.h"
#include "openssl/x509.h"

namespace beamline {
namespace {

constexpr long kSeconds = 600;

std::string TextOf(BIO* bio) {
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(bio, &bytes);
  return std::string(bytes, static_cast<size_t>(size));
}

}  // namespace

std::optional<TestCertificate> MakeTestCertificate() {
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"), EVP_PKEY_free);
  const std::unique_ptr<X509, decltype(&X509_free)> certificate(X509_new(), X509_free);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> key_text(BIO_new(BIO_s_mem()), BIO_free_all);
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> text(BIO_new(BIO_s_mem()), BIO_free_all);
  if (key == nullptr || certificate == nullptr || key_text == nullptr || text == nullptr) {
    return std::nullopt;
  }
  X509_set_version(certificate.get(), X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), 1);
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), -kSeconds);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), kSeconds);
  X509_NAME* const name = X509_get_subject_name(certificate.get());
  const auto* const localhost = reinterpret_cast<const unsigned char*>("localhost");
  const bool is_made =
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, localhost, -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate.get(), name) == 1 &&
      X509_set_pubkey(certificate.get(), key.get()) == 1 &&
      X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0 &&
      PEM_write_bio_X509(text.get(), certificate.get()) == 1 &&
      PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) ==
          1;
  if (!is_made) return std::nullopt;
  return TestCertificate{TextOf(text.get()), TextOf(key_text.get())};
}

}  // namespace beamline
