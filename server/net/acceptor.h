// Accepts a server's connections on a thread of its own and hands those whose client has spoken
// over to gRPC. gRPC's own listener stops for good at the first accept without a free descriptor
// (docs/decisions/0007).
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/statusor.h"
#include "server/guard/peer_floods.h"
#include "server/net/connection_stats.h"
#include "server/net/connection_table.h"
#include "server/net/flood_report.h"
#include "server/net/handshakes.h"
#include "server/net/http_farewell.h"
#include "server/net/listen_socket.h"
#include "server/net/rare_error.h"
#include "server/net/unique_fd.h"

namespace beamline {

// What an HTTP/2 client sends first (RFC 9113, 3.4).
inline constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

// What a TLS client sends first: the header of a handshake's record (RFC 8446, 5.1), of which the
// second byte of the version differs.
inline constexpr std::string_view kTlsHandshake = "\x16\x03";

// Of a protocol whose clients begin with anything: they are handed over at their first byte.
inline constexpr std::string_view kAnyByte = "";

struct AcceptorOptions {
  int32_t max_connections = 8192;
  int32_t max_connections_per_peer = 4096;  // of an IPv4 address or a /64 of IPv6
  std::chrono::milliseconds handshake_timeout{20000};
  std::string_view first_bytes = kHttp2Preface;  // of a connection; outlives the acceptor
  // Whether clients that flood a connection lose it (receive_watch.h); of kHttp2Preface.
  bool watches_floods = false;
  // Whether connections of an address that opens many, or floods, wait for their turn, and what
  // they send is counted by address (peer_floods.h). Handshakes of TLS are paced in any case.
  bool paces_peers = false;
  // What clients that speak HTTP/1.1 are told, one line. Of kHttp2Preface.
  std::string http_hint = "this address speaks gRPC";
  // Whether one that was handed over does nothing for its client, so that its place may be a new
  // one's; null: none does. Called on the acceptor's thread.
  std::function<bool(int fd)> is_idle;
  // Unfinished handshakes of those that are handed over; 0: any number. Of kTlsHandshake.
  int32_t max_handshakes = 0;
};

// A connection is silent until the bytes that a client must begin with have come; it is then handed
// over, with these bytes still to be read. A silent one is closed after the handshake timeout, and
// sooner when its place is needed. Where idle ones are known, the one that came first of the silent
// and the idle gives its place, and nobody before he has had it for a moment: new ones wait.
// Without a free place a new connection is closed at once, and so is one of an address that has
// many where the last places are for those that have few (ConnectionTable::IsFullFor). One that
// would have more handshakes than may be unfinished at once, or is one of many that its address has
// opened just now, waits, as a silent one, for its turn.
class Acceptor {
 public:
  // `hand_over` owns the descriptor that it gets, a socket that does not block. `on_accepting` is
  // told when new connections are refused or cannot be accepted (false), and when they are again.
  // Both are called on the acceptor's thread.
  using HandOver = std::function<void(int fd)>;
  using OnAccepting = std::function<void(bool accepting)>;

  // Accepts from now on. `stats` outlives the acceptor.
  static absl::StatusOr<std::unique_ptr<Acceptor>> Start(ListenSockets sockets,
                                                         const AcceptorOptions& options,
                                                         HandOver hand_over,
                                                         OnAccepting on_accepting,
                                                         ConnectionStats& stats);
  // Closes the port and the silent connections; nothing is handed over any more when it returns.
  ~Acceptor();

 private:
  using Clock = std::chrono::steady_clock;

  Acceptor(ListenSockets sockets, const AcceptorOptions& options, HandOver hand_over,
           OnAccepting on_accepting, ConnectionStats& stats);

  absl::Status Watch();
  void Run();
  // How long the thread may sleep when nothing happens, in milliseconds; -1: nothing is due.
  int WaitTime(Clock::time_point now) const;
  void AcceptAll(int listener);
  // Accepts one connection. False when there is nothing more to accept for now.
  bool AcceptOne(int listener);
  struct Newcomer {
    UniqueFd fd;
    sockaddr_storage address;
    std::string peer;
  };
  enum class Place : uint8_t { kFound, kNone, kLater };
  // Makes room for a connection. kNone, counted, when there is none; kLater: whoever may have to
  // give his has had it for too short a time.
  Place FindPlace(const Newcomer& newcomer);
  // Gives it its place. False when that cannot be done for now.
  bool Seat(Newcomer newcomer);
  std::optional<int> NextToGo(const std::string& peer);
  void Refuse(const Newcomer& newcomer);
  // Nothing is accepted until the newcomer has its place.
  void Hold(Newcomer newcomer);
  void EndHold();
  // Whether the sockets tell of connections that may be accepted.
  void Listen(bool on);
  void OnEvent(int fd, uint32_t events);
  // A connection has spoken. Where it has to wait nothing has changed.
  enum class Turn : uint8_t { kNow, kNoHandshake, kPaced };
  Turn TryHandOver(int fd);
  // Hands over those that wait for a place.
  void HandOverReady();
  // Closes a connection that begins with something else than it must.
  void CloseStranger(int fd, std::string_view begin);
  void AnswerHttp(int fd);
  void CloseSilent(int fd, Refusal reason);
  // Of one that was handed over: its owner sees the end and closes it.
  void EndIdle(int fd);
  void CloseOverdue(Clock::time_point now);
  // Notices the connections that gRPC has closed.
  void Sweep(Clock::time_point now);
  // accept() has failed for want of a resource. True when another try may succeed now.
  bool OnAcceptError(int listener, int error);
  void CountAcceptError(int error);
  void Pause();
  void Resume();
  void SetAccepting(bool accepting);

  const AcceptorOptions options_;
  const HandOver hand_over_;
  const OnAccepting on_accepting_;
  ConnectionStats& stats_;
  ListenSockets sockets_;
  UniqueFd epoll_;
  UniqueFd wake_;  // readable: stop
  std::thread thread_;

  const std::shared_ptr<Handshakes> handshakes_;  // null: any number

  // The thread's own:
  ConnectionTable table_;
  bool stopping_ = false;
  bool accepting_ = true;
  bool paused_ = false;
  std::chrono::milliseconds pause_{0};
  Clock::time_point resume_at_;
  std::optional<Newcomer> held_;  // waits for a place
  Clock::time_point hold_until_;
  Clock::time_point last_sweep_;
  Clock::time_point last_ready_;  // HandOverReady
  int num_turns_ = 0;             // of HandOverReady
  PeerFloods floods_;
  const std::shared_ptr<FloodReport> flood_report_;
  HttpFarewell http_farewell_;
  RareError limit_error_;
  RareError peer_limit_error_;
  RareError accept_error_;
  RareError protocol_error_;
};

}  // namespace beamline
