#include "server/security/tls_files.h"

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <memory>
#include <string_view>
#include <vector>

#include "base/field_error.h"
#include "base/file.h"
#include "base/status.h"
#include "base/text.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "openssl/bio.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/ssl.h"
#include "openssl/x509.h"

namespace beamline {
namespace {

constexpr char kCertificateSetting[] = "tls_certificate_file";
constexpr char kKeySetting[] = "tls_key_file";
constexpr char kClientCaSetting[] = "tls_client_ca_file";

template <auto Free>
struct Deleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Deleter<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Deleter<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Deleter<EVP_PKEY_free>>;
using Context = std::unique_ptr<SSL_CTX, Deleter<SSL_CTX_free>>;

absl::Status Fault(const char* setting, const std::string& path, std::string_view fault) {
  return FieldError({.field = setting,
                     .value = fmt::format("'{}'", path),
                     .text = fmt::format("{} is '{}', {}", setting, path, fault)});
}

// The reason of OpenSSL's last error. Clears the thread's errors, as gRPC also looks at the last
// one.
std::string LastReason() {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  std::string text = reason == nullptr ? "unknown" : reason;
  ERR_clear_error();
  return text;
}

Bio Reader(const std::string& pem) {
  return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

// For a key with a passphrase: the server cannot ask for it.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::StatusOr<std::vector<Certificate>> ParseCertificates(const char* setting,
                                                           const std::string& path,
                                                           const std::string& pem) {
  const Bio reader = Reader(pem);
  std::vector<Certificate> found;
  while (X509* one = PEM_read_bio_X509(reader.get(), nullptr, NoPassphrase, nullptr)) {
    found.emplace_back(one);
  }
  // At the end of the file, the error is a missing start line.
  const bool is_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  const std::string reason = LastReason();
  if (found.empty() && is_end) {
    return Fault(setting, path, "which holds no certificate; accepted: PEM certificates");
  }
  if (!is_end) {
    return Fault(setting, path,
                 fmt::format("whose certificate {} cannot be read ({}); accepted: PEM certificates",
                             found.size() + 1, reason));
  }
  return found;
}

absl::StatusOr<Key> ParseKey(const std::string& path, const std::string& pem) {
  const Bio reader = Reader(pem);
  Key key(PEM_read_bio_PrivateKey(reader.get(), nullptr, NoPassphrase, nullptr));
  if (key != nullptr) return key;
  const int error = ERR_GET_REASON(ERR_peek_last_error());
  const std::string reason = LastReason();
  if (error == PEM_R_NO_START_LINE || pem.find("PRIVATE KEY-----") == std::string::npos) {
    return Fault(kKeySetting, path, "which holds no key; accepted: a PEM private key");
  }
  if (pem.find("ENCRYPTED") != std::string::npos) {
    return Fault(kKeySetting, path,
                 "whose key needs a passphrase; accepted: a PEM private key without one");
  }
  return Fault(kKeySetting, path,
               fmt::format("whose key cannot be read ({}); accepted: a PEM private key", reason));
}

std::chrono::system_clock::time_point TimeOf(const ASN1_TIME* time) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return {};
  return std::chrono::system_clock::from_time_t(timegm(&parts));
}

// The earliest expiry. REQUIRES: not empty.
std::chrono::system_clock::time_point FirstEnd(const std::vector<Certificate>& certificates) {
  auto first = TimeOf(X509_get0_notAfter(certificates.front().get()));
  for (const Certificate& one : certificates) {
    first = std::min(first, TimeOf(X509_get0_notAfter(one.get())));
  }
  return first;
}

std::string SubjectOf(X509* certificate) {
  const Bio text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0, XN_FLAG_RFC2253);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return Shorten(std::string_view(data, static_cast<size_t>(size)), 200);
}

absl::Status CheckTimes(const std::string& path, X509* certificate) {
  const auto from = TimeOf(X509_get0_notBefore(certificate));
  const auto to = TimeOf(X509_get0_notAfter(certificate));
  const auto now = std::chrono::system_clock::now();
  if (now > to) {
    return Fault(
        kCertificateSetting, path,
        fmt::format("whose certificate ({}) expired at {}", SubjectOf(certificate), TimeText(to)));
  }
  if (now < from) {
    return Fault(kCertificateSetting, path,
                 fmt::format("whose certificate ({}) is valid only from {} on",
                             SubjectOf(certificate), TimeText(from)));
  }
  return absl::OkStatus();
}

// Checks what OpenSSL refuses after parsing, such as a short key.
absl::Status CheckUsable(const TlsFiles& files, X509* certificate, EVP_PKEY* key) {
  const Context context(SSL_CTX_new(TLS_server_method()));
  if (SSL_CTX_use_certificate(context.get(), certificate) != 1) {
    return Fault(kCertificateSetting, files.certificate,
                 fmt::format("which OpenSSL does not take: {}", LastReason()));
  }
  if (X509_check_private_key(certificate, key) != 1) {
    LastReason();
    return Fault(kKeySetting, files.key,
                 fmt::format("which is not the key of the certificate in {} '{}'",
                             kCertificateSetting, files.certificate));
  }
  if (SSL_CTX_use_PrivateKey(context.get(), key) != 1) {
    return Fault(kKeySetting, files.key,
                 fmt::format("which OpenSSL does not take: {}", LastReason()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsMaterial> ReadTlsFiles(const TlsFiles& files) {
  ERR_clear_error();
  TlsMaterial read;
  BEAMLINE_ASSIGN_OR_RETURN(read.certificate,
                            ReadFile(kCertificateSetting, files.certificate, kMostTlsFileBytes));
  BEAMLINE_ASSIGN_OR_RETURN(read.key, ReadFile(kKeySetting, files.key, kMostTlsFileBytes));
  BEAMLINE_ASSIGN_OR_RETURN(
      const std::vector<Certificate> certificates,
      ParseCertificates(kCertificateSetting, files.certificate, read.certificate));
  BEAMLINE_ASSIGN_OR_RETURN(const Key key, ParseKey(files.key, read.key));
  X509* const own = certificates.front().get();
  BEAMLINE_RETURN_IF_ERROR(CheckUsable(files, own, key.get()));
  BEAMLINE_RETURN_IF_ERROR(CheckTimes(files.certificate, own));
  if (!files.client_ca.empty()) {
    BEAMLINE_ASSIGN_OR_RETURN(read.client_ca,
                              ReadFile(kClientCaSetting, files.client_ca, kMostTlsFileBytes));
    BEAMLINE_ASSIGN_OR_RETURN(const std::vector<Certificate> authorities,
                              ParseCertificates(kClientCaSetting, files.client_ca, read.client_ca));
    read.client_ca_expires = FirstEnd(authorities);
  }
  read.subject = SubjectOf(own);
  read.expires = TimeOf(X509_get0_notAfter(own));
  read.chain_expires = FirstEnd(certificates);
  return read;
}

std::string TimeText(std::chrono::system_clock::time_point time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(time)));
}

}  // namespace beamline
