#include "server/security/tls_peer.h"

#include <memory>

#include "openssl/ssl.h"
#include "openssl/x509.h"

namespace beamline {

std::string PeerSubjectName(ssl_st* connection) {
  struct Free {
    void operator()(X509* certificate) const { X509_free(certificate); }
    void operator()(unsigned char* text) const { OPENSSL_free(text); }
  };
  const std::unique_ptr<X509, Free> certificate(SSL_get_peer_certificate(connection));
  if (certificate == nullptr || SSL_get_verify_result(connection) != X509_V_OK) return "";
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const int place = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (place < 0) return "";
  unsigned char* text = nullptr;
  const int size =
      ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, place)));
  const std::unique_ptr<unsigned char, Free> owner(text);
  return size < 0 ? "" : std::string(reinterpret_cast<char*>(text), static_cast<size_t>(size));
}

}  // namespace beamline
