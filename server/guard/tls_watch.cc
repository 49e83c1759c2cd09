#include "server/guard/tls_watch.h"

#include <chrono>
#include <memory>
#include <string_view>
#include <utility>

#include "openssl/crypto.h"
#include "openssl/ssl.h"
#include "server/guard/frame_watch.h"
#include "server/guard/next_function.h"

namespace beamline {
namespace {

thread_local TlsHandOver* handing_over = nullptr;

// What is known of a connection of OpenSSL's.
struct TlsConnection {
  TlsArrival arrival;  // its handshake until the client's first bytes after that
  std::unique_ptr<FrameWatch> frames;
};

// With the connection, by OpenSSL.
void NewConnection(void*, void*, CRYPTO_EX_DATA* data, int place, long, void*) {
  TlsArrival arrival = TlsHandOver::Claim();
  if (arrival.flood == nullptr) return;
  CRYPTO_set_ex_data(data, place, new TlsConnection{std::move(arrival), nullptr});
}
void FreeConnection(void*, void* connection, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<TlsConnection*>(connection);
}
int Place() {
  static const int place = SSL_get_ex_new_index(0, nullptr, NewConnection, nullptr, FreeConnection);
  return place;
}

bool IsServerOfHttp2(const SSL* ssl) {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl, &name, &size);
  const std::string_view protocol(reinterpret_cast<const char*>(name), size);
  return SSL_is_server(ssl) == 1 && (protocol == "h2" || protocol == "grpc-exp");
}

// False when the connection is to end.
bool Follow(SSL* ssl, std::string_view bytes) {
  auto* const connection = static_cast<TlsConnection*>(SSL_get_ex_data(ssl, Place()));
  if (connection == nullptr) return true;
  TlsArrival& arrival = connection->arrival;
  if (arrival.handshake != nullptr) {
    arrival.handshake->SetFinished();
    arrival.handshake = nullptr;
  }
  if (connection->frames == nullptr) {
    if (!IsServerOfHttp2(ssl)) return true;
    connection->frames = std::make_unique<FrameWatch>(arrival.flood);
  }
  FrameWatch& watch = *connection->frames;
  const bool had_ended = !watch.fault().empty();
  if (watch.Follow(bytes, std::chrono::steady_clock::now())) return true;
  if (!had_ended) arrival.flood->Report(watch.fault());
  return false;
}

}  // namespace

TlsHandOver::TlsHandOver(TlsArrival arrival) : arrival_(std::move(arrival)) {
  Place();  // before the connection
  handing_over = this;
}

TlsHandOver::~TlsHandOver() { handing_over = nullptr; }

TlsArrival TlsHandOver::Claim() {
  return handing_over == nullptr ? TlsArrival() : std::exchange(handing_over->arrival_, {});
}

}  // namespace beamline

// In place of OpenSSL's, for the libraries that this program loads too.
extern "C" __attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* bytes, int most) {
  using Read = int (*)(SSL*, void*, int);
  static const auto read = beamline::NextFunction<Read>("SSL_read");
  const int size = read(ssl, bytes, most);
  if (size <= 0) return size;
  const std::string_view come(static_cast<const char*>(bytes), static_cast<size_t>(size));
  return beamline::Follow(ssl, come) ? size : -1;
}
