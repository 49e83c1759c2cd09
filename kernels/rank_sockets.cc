#include "kernels/rank_sockets.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <system_error>
#include <thread>

#include "base/check.h"
#include "base/status.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace beamline {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint32_t kHelloMagic = 0x4c4d4252;   // in another byte order another number
constexpr uint32_t kAnswerMagic = 0x414d4252;  // who sends back what it hears is no front
constexpr uint32_t kVersion = 1;
constexpr milliseconds kLookForStop{100};
constexpr std::chrono::seconds kHandshakeTime{5};
constexpr size_t kMostStrangers = 64;  // that have not shown who they are; more wait to be accepted
constexpr size_t kReasonBytes = 256;

// What a follower says.
struct Hello {
  uint32_t magic = kHelloMagic;
  uint32_t version = kVersion;
  uint32_t size = 0;
  uint32_t rank = 0;
  uint32_t secret_bytes = 0;
  std::array<char, RankDoor::kMostSecretBytes> secret = {};
};

// What the front says to it.
struct Answer {
  uint32_t magic = kAnswerMagic;
  uint32_t accepted = 0;
  std::array<char, kReasonBytes> reason = {};  // ends with a zero
};

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

std::string NameOfDoor(const RankDoor& door) { return fmt::format("{}:{}", door.host, door.port); }

absl::StatusOr<Addresses> Resolve(const RankDoor& door) {
  std::string host = door.host;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  addrinfo hints = {};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), fmt::format("{}", door.port).c_str(), &hints, &found);
  if (error == 0) return Addresses(found);
  return absl::UnavailableError(
      fmt::format("{} cannot be found: {}", NameOfDoor(door), gai_strerror(error)));
}

std::string AddressText(const sockaddr* address, socklen_t bytes) {
  std::array<char, NI_MAXHOST> host = {};
  std::array<char, NI_MAXSERV> port = {};
  const int error = getnameinfo(address, bytes, host.data(), host.size(), port.data(), port.size(),
                                NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) return "an unknown address";
  if (address->sa_family == AF_INET6) return fmt::format("[{}]:{}", host.data(), port.data());
  return fmt::format("{}:{}", host.data(), port.data());
}

void SetOption(int socket, int level, int option, int value) {
  [[maybe_unused]] const int error = setsockopt(socket, level, option, &value, sizeof(value));
}

// Messages go at once, and a host that is gone without a word is noticed.
void SetUp(int socket) {
  constexpr int kSilenceSeconds = 5, kProbes = 3;
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  SetOption(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPIDLE, kSilenceSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPINTVL, kSilenceSeconds);
  SetOption(socket, IPPROTO_TCP, TCP_KEEPCNT, kProbes);
  SetOption(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, kSilenceSeconds * (kProbes + 1) * 1000);
}

// Takes as long for any two secrets of one length.
bool SameSecret(const Hello& hello, const std::string& secret) {
  std::array<char, RankDoor::kMostSecretBytes> expected = {};
  std::ranges::copy(secret, expected.begin());
  uint32_t differs = hello.secret_bytes ^ static_cast<uint32_t>(secret.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    differs |= static_cast<uint8_t>(hello.secret[i]) ^ static_cast<uint8_t>(expected[i]);
  }
  return differs == 0;
}

bool IsStopped(const RankDoor& door) { return door.stop != nullptr && *door.stop; }

absl::Status Stopped() { return absl::CancelledError("waiting for the ranks was stopped"); }

int64_t InMs(std::chrono::nanoseconds time) {
  return std::chrono::duration_cast<milliseconds>(time).count();
}

// The front while followers come.
class Reception {
 public:
  Reception(const RankDoor& door, RankSocket listener)
      : door_(door), listener_(std::move(listener)), ranks_(static_cast<size_t>(door.size) - 1) {}

  absl::StatusOr<std::vector<RankSocket>> Wait() {
    const Clock::time_point end = Clock::now() + door_.join_limit;
    while (!Missing().empty()) {
      if (IsStopped(door_)) return Stopped();
      if (Clock::now() >= end) return LateError();
      WaitForAny();
      Accept();
      // Before somebody is heard who comes in its place.
      for (RankSocket& rank : ranks_) {
        if (rank.is_open() && IsGone(rank)) rank = RankSocket();
      }
      std::erase_if(strangers_, [this](Stranger& stranger) { return Hear(stranger); });
    }
    return std::move(ranks_);
  }

 private:
  struct Stranger {
    RankSocket socket;
    Clock::time_point end;
    Hello hello;
    size_t heard = 0;
  };

  std::vector<int> Missing() const {
    std::vector<int> missing;
    for (size_t i = 0; i < ranks_.size(); ++i) {
      if (!ranks_[i].is_open()) missing.push_back(static_cast<int>(i) + 1);
    }
    return missing;
  }

  absl::Status LateError() const {
    const std::vector<int> missing = Missing();
    return absl::UnavailableError(fmt::format(
        "{} {} of {} did not come to {} within {} ms{}", missing.size() == 1 ? "rank" : "ranks",
        fmt::join(missing, ", "), door_.size, NameOfDoor(door_), InMs(door_.join_limit),
        sent_away_.empty() ? "" : fmt::format("; sent away: {}", sent_away_)));
  }

  void WaitForAny() {
    std::vector<pollfd> waits;
    const auto add = [&](const RankSocket& socket) {
      waits.push_back({.fd = socket.socket(), .events = POLLIN, .revents = 0});
    };
    if (strangers_.size() < kMostStrangers) add(listener_);
    for (const Stranger& stranger : strangers_) add(stranger.socket);
    poll(waits.data(), waits.size(), static_cast<int>(kLookForStop.count()));
  }

  void Accept() {
    while (strangers_.size() < kMostStrangers) {
      sockaddr_storage address = {};
      socklen_t bytes = sizeof(address);
      auto* const any = reinterpret_cast<sockaddr*>(&address);
      const int socket = accept4(listener_.socket(), any, &bytes, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (socket < 0) return;
      SetUp(socket);
      strangers_.push_back({.socket = RankSocket(socket, AddressText(any, bytes)),
                            .end = Clock::now() + kHandshakeTime,
                            .hello = {}});
    }
  }

  // Whether it is a stranger no longer.
  bool Hear(Stranger& stranger) {
    auto* const hello = reinterpret_cast<char*>(&stranger.hello);
    const ssize_t received = recv(stranger.socket.socket(), hello + stranger.heard,
                                  sizeof(Hello) - stranger.heard, MSG_DONTWAIT);
    const bool waits = received < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    if (received <= 0) return !waits || Clock::now() >= stranger.end;
    stranger.heard += static_cast<size_t>(received);
    if (stranger.heard < sizeof(Hello)) return false;
    const std::string reason = ReasonToRefuse(stranger.hello);
    Answer answer = {.accepted = reason.empty() ? 1u : 0u};
    std::copy_n(reason.begin(), std::min(reason.size(), kReasonBytes - 1), answer.reason.begin());
    [[maybe_unused]] const ssize_t sent =
        send(stranger.socket.socket(), &answer, sizeof(answer), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (reason.empty()) {
      ranks_[stranger.hello.rank - 1] = std::move(stranger.socket);
    } else {
      sent_away_ = fmt::format("{}: {}", stranger.socket.address(), reason);
    }
    return true;
  }

  // Of who does not know the secret nothing is said, and to it nothing else.
  std::string ReasonToRefuse(const Hello& hello) const {
    if (hello.magic != kHelloMagic) return "it is no rank";
    if (!SameSecret(hello, door_.secret)) return "its secret is another one";
    if (hello.version != kVersion) {
      return fmt::format("its protocol is version {}; accepted: {}", hello.version, kVersion);
    }
    if (hello.size != static_cast<uint32_t>(door_.size)) {
      return fmt::format("it is one of {} ranks; accepted: {}", hello.size, door_.size);
    }
    if (hello.rank < 1 || hello.rank >= hello.size) {
      return fmt::format("its rank is {}; accepted: 1 to {}", hello.rank, door_.size - 1);
    }
    const RankSocket& same = ranks_[hello.rank - 1];
    if (same.is_open()) {
      return fmt::format("rank {} is there already, at {}", hello.rank, same.address());
    }
    return "";
  }

  static bool IsGone(const RankSocket& rank) {
    char byte = 0;
    const ssize_t seen = recv(rank.socket(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return seen == 0 || (seen < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  const RankDoor& door_;
  RankSocket listener_;
  std::vector<Stranger> strangers_;
  std::vector<RankSocket> ranks_;  // from rank 1 on
  std::string sent_away_;          // the last one
};

// Whether `socket` can be written, or read, before `end`.
bool WaitUntil(const RankDoor& door, int socket, short events, Clock::time_point end) {
  pollfd wait = {.fd = socket, .events = events, .revents = 0};
  while (!IsStopped(door) && Clock::now() < end) {
    if (poll(&wait, 1, static_cast<int>(kLookForStop.count())) > 0) return true;
  }
  return false;
}

// Not connected, with the reason in `why`: the front is not there.
RankSocket Connect(const RankDoor& door, std::string& why) {
  auto addresses = Resolve(door);
  if (!addresses.ok()) {
    why = std::string(addresses.status().message());
    return RankSocket();
  }
  for (const addrinfo* address = addresses->get(); address != nullptr; address = address->ai_next) {
    RankSocket socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0),
                      AddressText(address->ai_addr, address->ai_addrlen));
    if (!socket.is_open()) continue;
    int error = 0;
    if (connect(socket.socket(), address->ai_addr, address->ai_addrlen) != 0) {
      error = errno;
      if (error == EINPROGRESS) {
        socklen_t bytes = sizeof(error);
        if (!WaitUntil(door, socket.socket(), POLLOUT, Clock::now() + kHandshakeTime)) {
          error = ETIMEDOUT;
        } else {
          getsockopt(socket.socket(), SOL_SOCKET, SO_ERROR, &error, &bytes);
        }
      }
    }
    if (error == 0 && IsConnectedWithItself(socket)) {
      constexpr linger kAtOnce = {.l_onoff = 1, .l_linger = 0};  // else the port stays taken
      setsockopt(socket.socket(), SOL_SOCKET, SO_LINGER, &kAtOnce, sizeof(kAtOnce));
      error = ECONNREFUSED;
    }
    if (error == 0) {
      SetUp(socket.socket());
      return socket;
    }
    why = SystemError(error);
  }
  return RankSocket();
}

// Nullopt: the front went away, or said nothing.
std::optional<Answer> Introduce(const RankDoor& door, int rank, const RankSocket& socket) {
  Hello hello = {.size = static_cast<uint32_t>(door.size),
                 .rank = static_cast<uint32_t>(rank),
                 .secret_bytes = static_cast<uint32_t>(door.secret.size())};
  std::ranges::copy(door.secret, hello.secret.begin());
  // It is far smaller than what an empty connection takes at once.
  if (send(socket.socket(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    return std::nullopt;
  }
  Answer answer;
  const Clock::time_point end = Clock::now() + kHandshakeTime;
  for (size_t heard = 0; heard < sizeof(answer);) {
    if (!WaitUntil(door, socket.socket(), POLLIN, end)) return std::nullopt;
    const ssize_t received = recv(socket.socket(), reinterpret_cast<char*>(&answer) + heard,
                                  sizeof(answer) - heard, MSG_DONTWAIT);
    if (received <= 0) return std::nullopt;
    heard += static_cast<size_t>(received);
  }
  answer.reason.back() = '\0';
  if (answer.magic != kAnswerMagic) return std::nullopt;
  return answer;
}

void CheckDoor(const RankDoor& door) {
  BEAMLINE_CHECK(door.size >= 2 && door.secret.size() >= RankDoor::kFewestSecretBytes &&
                 door.secret.size() <= RankDoor::kMostSecretBytes);
}

}  // namespace

RankSocket::~RankSocket() {
  if (is_open()) close(socket_);
}

std::string SystemError(int error) { return std::generic_category().message(error); }

absl::StatusOr<RankSocket> ListenAt(const RankDoor& door) {
  auto addresses = Resolve(door);
  if (!addresses.ok()) {
    return absl::InvalidArgumentError(std::string(addresses.status().message()));
  }
  const addrinfo& address = **addresses;
  RankSocket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), "");
  if (socket.is_open()) SetOption(socket.socket(), SOL_SOCKET, SO_REUSEADDR, 1);
  if (!socket.is_open() || bind(socket.socket(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(socket.socket(), kMostStrangers) != 0) {
    return absl::InvalidArgumentError(
        fmt::format("{} cannot be listened at: {}", NameOfDoor(door), SystemError(errno)));
  }
  return socket;
}

int PortOf(const RankSocket& socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  BEAMLINE_CHECK(getsockname(socket.socket(), reinterpret_cast<sockaddr*>(&address), &bytes) == 0);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

std::string HostOf(int socket) {
  sockaddr_storage address = {};
  socklen_t bytes = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  BEAMLINE_CHECK(getsockname(socket, any, &bytes) == 0);
  const std::string text = AddressText(any, bytes);
  return text.substr(0, text.rfind(':'));
}

bool IsConnectedWithItself(const RankSocket& socket) {
  sockaddr_storage own = {}, other = {};
  socklen_t own_bytes = sizeof(own), other_bytes = sizeof(other);
  return getsockname(socket.socket(), reinterpret_cast<sockaddr*>(&own), &own_bytes) == 0 &&
         getpeername(socket.socket(), reinterpret_cast<sockaddr*>(&other), &other_bytes) == 0 &&
         std::memcmp(&own, &other, sizeof(own)) == 0;
}

absl::StatusOr<std::vector<RankSocket>> AcceptRanks(const RankDoor& door, RankSocket listener) {
  CheckDoor(door);
  return Reception(door, std::move(listener)).Wait();
}

absl::StatusOr<RankSocket> ConnectToFront(const RankDoor& door, int rank) {
  CheckDoor(door);
  BEAMLINE_CHECK(rank >= 1 && rank < door.size);
  const Clock::time_point end = Clock::now() + door.join_limit;
  std::string why = "it does not answer";
  while (true) {
    if (RankSocket socket = Connect(door, why); socket.is_open()) {
      const std::optional<Answer> answer = Introduce(door, rank, socket);
      if (answer.has_value() && answer->accepted == 1) return socket;
      if (answer.has_value()) {
        return absl::FailedPreconditionError(fmt::format("the front at {} sends rank {} away: {}",
                                                         NameOfDoor(door), rank,
                                                         answer->reason.data()));
      }
      why = "what is there does not answer as a front";
    }
    if (IsStopped(door)) return Stopped();
    if (Clock::now() >= end) {
      return absl::UnavailableError(fmt::format("the front did not come to {} within {} ms: {}",
                                                NameOfDoor(door), InMs(door.join_limit), why));
    }
    std::this_thread::sleep_for(kLookForStop);
  }
}

}  // namespace beamline
