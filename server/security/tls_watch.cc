#include "server/security/tls_watch.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "openssl/crypto.h"
#include "openssl/ssl.h"
#include "server/accept/connection_flood.h"
#include "server/accept/frame_watch.h"
#include "server/accept/handshakes.h"
#include "server/accept/rare_error.h"

namespace beamline {
namespace {

std::atomic<ConnectionStats*> watching{nullptr};

// What is known of a connection of OpenSSL's.
struct TlsConnection {
  std::unique_ptr<Handshakes::Handshake> handshake;  // until the client's first bytes behind it
  std::unique_ptr<FrameWatch> frames;
};

// With the connection, by OpenSSL.
void NewConnection(void*, void*, CRYPTO_EX_DATA* data, int place, long, void*) {
  auto handshake = Handshakes::Claim();
  if (handshake == nullptr) return;
  CRYPTO_set_ex_data(data, place, new TlsConnection{std::move(handshake), nullptr});
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

// Of a connection that something is received by.
FrameWatch* WatchOf(SSL* ssl, TlsConnection* connection, std::shared_ptr<ConnectionFlood> flood) {
  if (connection != nullptr && connection->frames != nullptr) return connection->frames.get();
  if (!IsServerOfHttp2(ssl)) return nullptr;
  if (connection == nullptr) {
    connection = new TlsConnection;
    SSL_set_ex_data(ssl, Place(), connection);
  }
  if (flood == nullptr) flood = std::make_shared<ConnectionFlood>();
  connection->frames = std::make_unique<FrameWatch>(std::move(flood));
  return connection->frames.get();
}

// False when the connection is to end.
bool Follow(SSL* ssl, std::string_view bytes, ConnectionStats& stats) {
  auto* const connection = static_cast<TlsConnection*>(SSL_get_ex_data(ssl, Place()));
  std::shared_ptr<ConnectionFlood> flood;
  if (connection != nullptr && connection->handshake != nullptr) {
    flood = connection->handshake->flood();
    connection->handshake->SetFinished();
    connection->handshake = nullptr;
  }
  FrameWatch* const watch = WatchOf(ssl, connection, std::move(flood));
  if (watch == nullptr) return true;
  const bool had_ended = !watch->fault().empty();
  if (watch->Follow(bytes, std::chrono::steady_clock::now())) return true;
  if (had_ended) return false;
  stats.Count(Refusal::kFlood);
  static std::mutex mutex;
  static auto* const log = new RareError;  // until the last thread has ended
  std::lock_guard lock(mutex);
  log->Log(fmt::format("ended a connection in TLS: its client floods it with {}", watch->fault()));
  return false;
}

}  // namespace

void WatchTls(ConnectionStats* stats) {
  Place();  // before the first connection
  watching = stats;
}

}  // namespace beamline

// In place of OpenSSL's, for the libraries that this program loads too.
extern "C" __attribute__((visibility("default"))) int SSL_read(SSL* ssl, void* bytes, int most) {
  using Read = int (*)(SSL*, void*, int);
  static const auto read = reinterpret_cast<Read>(dlsym(RTLD_NEXT, "SSL_read"));
  const int size = read(ssl, bytes, most);
  beamline::ConnectionStats* const stats = beamline::watching;
  if (size <= 0 || stats == nullptr) return size;
  const std::string_view come(static_cast<const char*>(bytes), static_cast<size_t>(size));
  return beamline::Follow(ssl, come, *stats) ? size : -1;
}
