#include "server/security/tls_watch.h"

#include <dlfcn.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "openssl/crypto.h"
#include "openssl/ssl.h"
#include "server/accept/frame_watch.h"
#include "server/accept/rare_error.h"

namespace beamline {
namespace {

std::atomic<ConnectionStats*> watching{nullptr};

// With the connection, by OpenSSL.
void FreeWatch(void*, void* watch, CRYPTO_EX_DATA*, int, long, void*) {
  delete static_cast<FrameWatch*>(watch);
}
int Place() {
  static const int place = SSL_get_ex_new_index(0, nullptr, nullptr, nullptr, FreeWatch);
  return place;
}

bool IsServerOfHttp2(const SSL* ssl) {
  const unsigned char* name = nullptr;
  unsigned int size = 0;
  SSL_get0_alpn_selected(ssl, &name, &size);
  const std::string_view protocol(reinterpret_cast<const char*>(name), size);
  return SSL_is_server(ssl) == 1 && (protocol == "h2" || protocol == "grpc-exp");
}

FrameWatch* WatchOf(SSL* ssl) {
  if (void* const known = SSL_get_ex_data(ssl, Place())) return static_cast<FrameWatch*>(known);
  if (!IsServerOfHttp2(ssl)) return nullptr;
  auto* const watch = new FrameWatch;
  SSL_set_ex_data(ssl, Place(), watch);
  return watch;
}

// False when the connection is to end.
bool Follow(SSL* ssl, std::string_view bytes, ConnectionStats& stats) {
  FrameWatch* const watch = WatchOf(ssl);
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

void WatchTls(ConnectionStats* stats) { watching = stats; }

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
