#include "server/guard/self_check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "base/check.h"
#include "fmt/format.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/grpcpp.h"
#include "openssl/bio.h"
#include "openssl/ssl.h"
#include "server/guard/connection_flood.h"
#include "server/guard/receive_watch.h"
#include "server/guard/test_certificate.h"
#include "server/guard/tls_watch.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using ExternalAcceptor = grpc::experimental::ExternalConnectionAcceptor;

constexpr milliseconds kLookInterval{1};
// SETTINGS without a setting: more than a client may send within kGuardTime.
constexpr std::string_view kEmptySettings("\0\0\0\4\0\0\0\0\0", 9);
constexpr int kNumFrames = 3 * static_cast<int>(ConnectionFlood::kMostIdleFrames) + 1;
static_assert(kNumFrames > ConnectionFlood::kMostIdleFrames +
                               ConnectionFlood::kIdleFramesPerSecond *
                                   std::chrono::duration<double>(kGuardTime).count());

absl::Status Error(std::string_view what) {
  return absl::UnavailableError(fmt::format("{}: {}", what, std::system_category().message(errno)));
}

// Both ends of a TCP connection over loopback, as clients have one of.
struct Ends {
  int server = -1, client = -1;

  Ends() = default;
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;
  ~Ends() {
    if (server >= 0) close(server);
    if (client >= 0) close(client);
  }
  absl::Status Connect(int family);
};

absl::Status Ends::Connect(int family) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  socklen_t size = sizeof(sockaddr_in);
  if (family == AF_INET6) {
    reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_loopback;
    size = sizeof(sockaddr_in6);
  } else {
    reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  }
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  if (client >= 0) close(client);  // of another family
  const int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = listener >= 0 && client >= 0 && bind(listener, at, size) == 0 &&
                         listen(listener, 1) == 0 && getsockname(listener, at, &size) == 0 &&
                         connect(client, at, size) == 0;
  if (connected) server = accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
  const absl::Status status =
      server >= 0 ? absl::OkStatus() : Error("there is no connection over loopback");
  if (listener >= 0) close(listener);
  return status;
}

// The preface of HTTP/2 and the flood.
std::string Flood() {
  std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  for (int i = 0; i < kNumFrames; ++i) bytes += kEmptySettings;
  return bytes;
}

// The client in TLS, over memory: its own thread sends and receives, and no SIGPIPE comes of it.
class TlsClient {
 public:
  explicit TlsClient(int fd) : fd_(fd), context_(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free) {
    constexpr unsigned char kProtocol[] = {2, 'h', '2'};
    SSL_CTX_set_alpn_protos(context_.get(), kProtocol, sizeof(kProtocol));
    connection_.reset(SSL_new(context_.get()));
    SSL_set_bio(connection_.get(), BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
    SSL_set_connect_state(connection_.get());
  }

  // Finishes the handshake first. False where the other end does not, or the time is over.
  bool Send(std::string_view bytes) {
    int done = 0;
    while ((done = SSL_do_handshake(connection_.get())) != 1) {
      if (SSL_get_error(connection_.get(), done) != SSL_ERROR_WANT_READ) return false;
      if (!Flush() || !Receive()) return false;
    }
    SSL_write(connection_.get(), bytes.data(), static_cast<int>(bytes.size()));
    return Flush();
  }

 private:
  bool Flush() {
    char* bytes = nullptr;
    BIO* const out = SSL_get_wbio(connection_.get());
    const long size = BIO_get_mem_data(out, &bytes);
    const bool sent = send(fd_, bytes, static_cast<size_t>(size), MSG_NOSIGNAL) == size;
    BIO_reset(out);
    return sent;
  }
  bool Receive() {
    char bytes[4096];
    const ssize_t size = recv(fd_, bytes, sizeof(bytes), 0);
    if (size > 0) BIO_write(SSL_get_rbio(connection_.get()), bytes, static_cast<int>(size));
    return size > 0;
  }

  const int fd_;
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context_;
  std::unique_ptr<SSL, decltype(&SSL_free)> connection_{nullptr, &SSL_free};
};

// Neither end waits longer than this for the other.
void SetPatience(int fd, milliseconds time) {
  const timeval patience{.tv_sec = time.count() / 1000, .tv_usec = time.count() % 1000 * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void SendFlood(int fd, GuardedKind kind) {
  const std::string flood = Flood();
  if (kind == GuardedKind::kTls) {
    TlsClient(fd).Send(flood);
  } else {
    send(fd, flood.data(), flood.size(), MSG_NOSIGNAL);
  }
}

// What the client has got of the other end.
struct Got {
  size_t num_bytes = 0;
  bool is_ended = false;

  void Read(int fd) {
    pollfd state{fd, POLLIN, 0};
    char bytes[4096];
    while (!is_ended && poll(&state, 1, 0) > 0) {
      const ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);
      is_ended = size <= 0;
      num_bytes += static_cast<size_t>(std::max<ssize_t>(size, 0));
    }
  }
  // gRPC acknowledges each SETTINGS frame. This number of bytes shows that it has read the flood.
  bool has_acknowledged() const { return num_bytes >= size_t{kNumFrames} * kEmptySettings.size(); }
};

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> Credentials(GuardedKind kind) {
  if (kind == GuardedKind::kPlain) return grpc::InsecureServerCredentials();
  const std::optional<TestCertificate> made = MakeTestCertificate();
  if (!made.has_value()) return absl::UnavailableError("OpenSSL makes no certificate");
  grpc::SslServerCredentialsOptions options;
  options.pem_key_cert_pairs.push_back({made->key, made->certificate});
  return grpc::SslServerCredentials(options);
}

}  // namespace

absl::Status TestGuard(GuardedKind kind, milliseconds time) {
  BEAMLINE_CHECK(time.count() > 0);
  const auto credentials = Credentials(kind);
  if (!credentials.ok()) return credentials.status();
  Ends ends;
  if (absl::Status status = ends.Connect(AF_INET); !status.ok()) {
    status = ends.Connect(AF_INET6);
    if (!status.ok()) return status;
  }
  grpc::ServerBuilder builder;
  grpc::CallbackGenericService service;  // without a service gRPC does not start
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<ExternalAcceptor> acceptor =
      builder.experimental().AddExternalConnectionAcceptor(
          grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, *credentials);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return absl::UnavailableError("gRPC starts no server for the test");

  const auto until = steady_clock::now() + time;
  SetPatience(ends.client, time);
  const auto reported = std::make_shared<std::atomic<bool>>(false);
  TlsArrival arrival{std::make_shared<ConnectionFlood>(
                         nullptr, [reported](std::string_view) { *reported = true; }),
                     nullptr};
  if (kind == GuardedKind::kPlain) WatchReceived(ends.server, arrival.flood);
  {
    const TlsHandOver hand_over(std::move(arrival));
    ExternalAcceptor::NewConnectionParameters connection;
    connection.fd = std::exchange(ends.server, -1);  // gRPC closes it
    acceptor->HandleNewConnection(&connection);
  }
  SendFlood(ends.client, kind);
  Got got;
  for (got.Read(ends.client);
       !got.is_ended && !got.has_acknowledged() && steady_clock::now() < until;
       got.Read(ends.client)) {
    std::this_thread::sleep_for(kLookInterval);
  }
  close(std::exchange(ends.client, -1));
  server->Shutdown(std::chrono::system_clock::now());
  if (*reported && got.is_ended) return absl::OkStatus();
  if (!got.is_ended && !got.has_acknowledged()) {
    return absl::UnavailableError(
        fmt::format("the test of the guard took longer than {} s",
                    std::chrono::duration_cast<std::chrono::duration<double>>(time).count()));
  }
  return absl::UnavailableError(fmt::format(
      "gRPC {} reads connections past the guard: {} SETTINGS frames over loopback were {}",
      grpc::Version(), kNumFrames,
      *reported ? "seen, and the connection was not ended" : "not seen"));
}

}  // namespace beamline
