// Long because one thread accepts, waits, refuses and gives places away.
#include "server/net/acceptor.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "base/shared_limit.h"
#include "base/status.h"
#include "fmt/format.h"
#include "server/guard/answered_calls.h"
#include "server/guard/receive_watch.h"
#include "server/net/peer_address.h"
#include "server/net/received_bytes.h"
#include "spdlog/spdlog.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{50};
constexpr milliseconds kLongestPause{1000};
constexpr milliseconds kSweepInterval{500};
// Between sweeps while a place is needed. A sweep costs some 0.2 us a connection.
constexpr milliseconds kHurriedSweepInterval{20};
// Between looks whether handshakes have ended, while connections wait for their places.
constexpr milliseconds kReadyInterval{20};
// One look in this number begins with the oldest.
constexpr int kOldestEvery = 2;
constexpr int kAcceptsInARow = 64;
// For how long nobody loses his place: what came with a connection is read meanwhile, and a flood
// passes at so many connections in this time as there are places.
constexpr milliseconds kLeastStay{4};

std::string ErrorText(int error) { return std::system_category().message(error); }

bool Register(int epoll, int operation, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  return epoll_ctl(epoll, operation, fd, &event) == 0;
}

bool IsReadable(int fd) {
  pollfd state{fd, POLLIN, 0};
  return poll(&state, 1, 0) > 0;
}

// Errors of the connection that was to be accepted, not of the socket that accepts (accept(2)).
bool IsOfTheConnection(int error) {
  switch (error) {
    case EINTR:
    case ECONNABORTED:
    case EPROTO:
    case EPERM:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case EOPNOTSUPP:
    case ENETUNREACH:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(ListenSockets sockets,
                                                          const AcceptorOptions& options,
                                                          HandOver hand_over,
                                                          OnAccepting on_accepting,
                                                          ConnectionStats& stats) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(sockets), options, std::move(hand_over),
                                                  std::move(on_accepting), stats));
  BEAMLINE_RETURN_IF_ERROR(acceptor->Watch());
  return acceptor;
}

Acceptor::Acceptor(ListenSockets sockets, const AcceptorOptions& options, HandOver hand_over,
                   OnAccepting on_accepting, ConnectionStats& stats)
    : options_(options),
      hand_over_(std::move(hand_over)),
      on_accepting_(std::move(on_accepting)),
      stats_(stats),
      sockets_(std::move(sockets)),
      handshakes_(options.max_handshakes > 0
                      ? std::make_shared<Handshakes>(options.max_handshakes, stats)
                      : nullptr),
      table_(options.max_connections,
             std::min(options.max_connections, options.max_connections_per_peer)),
      flood_report_(std::make_shared<FloodReport>(stats)),
      http_farewell_(options.http_hint) {}

Acceptor::~Acceptor() {
  flood_report_->Close();
  if (!thread_.joinable()) return;
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

absl::Status Acceptor::Watch() {
  epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  wake_ = UniqueFd(epoll_.get() < 0 ? -1 : eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  bool watched = wake_.get() >= 0 && Register(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), EPOLLIN);
  for (const UniqueFd& listener : sockets_.sockets) {
    watched = watched && Register(epoll_.get(), EPOLL_CTL_ADD, listener.get(), EPOLLIN);
  }
  if (!watched) {
    return absl::UnavailableError(fmt::format("cannot wait for connections: {}", ErrorText(errno)));
  }
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void Acceptor::Run() {
  std::array<epoll_event, 256> events;
  while (!stopping_) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                 WaitTime(Clock::now()));
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == wake_.get()) {
        stopping_ = true;
      } else if (std::any_of(sockets_.sockets.begin(), sockets_.sockets.end(),
                             [fd](const UniqueFd& listener) { return listener.get() == fd; })) {
        AcceptAll(fd);
      } else {
        OnEvent(fd, events[i].events);
      }
    }
    const Clock::time_point now = Clock::now();
    CloseOverdue(now);
    if (paused_ && now >= resume_at_) Resume();
    if (held_.has_value() && now >= hold_until_) EndHold();
    if (now - last_sweep_ >= kSweepInterval) Sweep(now);
    HandOverReady();
    stats_.silent = static_cast<int64_t>(table_.silent().size());
    stats_.open = static_cast<int64_t>(table_.num_handed_over());
  }
  sockets_.sockets.clear();
  for (const int fd : table_.silent()) close(fd);
  stats_.silent = 0;
}

int Acceptor::WaitTime(Clock::time_point now) const {
  Clock::time_point due = Clock::time_point::max();
  if (const auto deadline = table_.NextDeadline()) due = *deadline;
  if (const auto deadline = http_farewell_.NextDeadline()) due = std::min(due, *deadline);
  if (paused_) due = std::min(due, resume_at_);
  if (held_.has_value()) due = std::min(due, hold_until_);
  if (table_.num_handed_over() > 0 || !accepting_) {
    due = std::min(due, last_sweep_ + kSweepInterval);
  }
  if (!table_.ready().empty()) due = std::min(due, last_ready_ + kReadyInterval);
  if (due == Clock::time_point::max()) return -1;
  const auto wait = std::chrono::ceil<milliseconds>(due - now);
  return static_cast<int>(std::clamp<int64_t>(wait.count(), 0, 3600000));
}

void Acceptor::AcceptAll(int listener) {
  for (int i = 0; i < kAcceptsInARow && !paused_ && !held_.has_value(); ++i) {
    if (!AcceptOne(listener)) return;
  }
}

bool Acceptor::AcceptOne(int listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  UniqueFd fd(accept4(listener, reinterpret_cast<sockaddr*>(&address), &size,
                      SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!fd.valid()) {
    const int error = errno;
    if (error == EAGAIN || error == EWOULDBLOCK) return false;
    if (IsOfTheConnection(error)) return true;
    return OnAcceptError(listener, error);
  }
  pause_ = milliseconds(0);
  // The descriptor may be in the table still, for a connection whose end nobody has noticed.
  table_.Remove(fd.get());
  return Seat({std::move(fd), address, PeerKey(address)});
}

bool Acceptor::Seat(Newcomer newcomer) {
  switch (FindPlace(newcomer)) {
    case Place::kNone:
      return true;
    case Place::kLater:
      Hold(std::move(newcomer));
      return false;
    case Place::kFound:
      break;
  }
  UniqueFd& fd = newcomer.fd;
  // Edge-triggered: bytes that stay unread must not wake the thread again and again.
  if (!Register(epoll_.get(), EPOLL_CTL_ADD, fd.get(), EPOLLIN | EPOLLRDHUP | EPOLLET)) {
    CountAcceptError(errno);
    Pause();
    return false;
  }
  table_.Add(fd.Release(), newcomer.peer, Clock::now() + options_.handshake_timeout);
  return true;
}

void Acceptor::Hold(Newcomer newcomer) {
  held_ = std::move(newcomer);
  hold_until_ = Clock::now() + kLeastStay;
  Listen(false);
}

void Acceptor::EndHold() {
  Newcomer newcomer = *std::exchange(held_, std::nullopt);
  if (!paused_) Listen(true);
  Seat(std::move(newcomer));
}

Acceptor::Place Acceptor::FindPlace(const Newcomer& newcomer) {
  const std::string& peer = newcomer.peer;
  if (!table_.full() && !table_.IsFullFor(peer)) return Place::kFound;
  const auto now = Clock::now();
  if (now - last_sweep_ >= kHurriedSweepInterval) {
    Sweep(now);
    if (!table_.full() && !table_.IsFullFor(peer)) return Place::kFound;
  }
  auto goes = NextToGo(peer);
  // One whose bytes have come is not silent: this thread may have been late to read them.
  while (options_.is_idle != nullptr && goes.has_value() && table_.IsSilent(*goes) &&
         !table_.IsReady(*goes)) {
    OnEvent(*goes, 0);
    if (!table_.full() && !table_.IsFullFor(peer)) return Place::kFound;
    const auto before = std::exchange(goes, NextToGo(peer));
    if (goes == before) break;
  }
  if (!goes.has_value()) {
    Refuse(newcomer);
    return Place::kNone;
  }
  const auto since = table_.DeadlineOf(*goes) - options_.handshake_timeout;
  if (options_.is_idle != nullptr && now - since < kLeastStay) return Place::kLater;
  if (table_.IsSilent(*goes)) {
    CloseSilent(*goes, Refusal::kDisplaced);
  } else {
    EndIdle(*goes);
  }
  return Place::kFound;
}

std::optional<int> Acceptor::NextToGo(const std::string& peer) {
  const bool is_full_for_peer = table_.IsFullFor(peer);
  const auto silent = is_full_for_peer ? table_.OldestSilentOf(peer) : table_.OldestSilent();
  if (options_.is_idle == nullptr) return silent;
  const auto idle = table_.OldestIdle(is_full_for_peer ? &peer : nullptr, options_.is_idle);
  if (!idle.has_value() || !silent.has_value()) return idle.has_value() ? idle : silent;
  return table_.DeadlineOf(*silent) < table_.DeadlineOf(*idle) ? silent : idle;
}

void Acceptor::Refuse(const Newcomer& newcomer) {
  if (table_.full() && table_.silent().empty()) {
    stats_.Count(Refusal::kLimit);
    limit_error_.Log(fmt::format(
        "refused a connection: {} are open, as many as max_connections and the limit of open files "
        "allow",
        table_.limit()));
    SetAccepting(false);
    return;
  }
  stats_.Count(Refusal::kPeerLimit);
  peer_limit_error_.Log(
      fmt::format("refused a connection of {}: {} of its address are open, as many as "
                  "max_connections_per_peer allows, or the last {} of max_connections, which are "
                  "for addresses that have few",
                  AddressText(newcomer.address), table_.num_of(newcomer.peer),
                  SharedLimit::Reserve(table_.limit())));
}

void Acceptor::OnEvent(int fd, uint32_t events) {
  if (!table_.IsSilent(fd)) return;  // closed meanwhile
  std::array<char, 64> bytes;
  const size_t wanted = std::clamp<size_t>(options_.first_bytes.size(), 1, bytes.size());
  const ssize_t size = recv(fd, bytes.data(), wanted, MSG_PEEK);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const std::string_view begin(bytes.data(), static_cast<size_t>(std::max<ssize_t>(size, 0)));
  const bool has_ended = (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
  if (begin.empty() || (has_ended && (begin.size() < wanted || table_.IsReady(fd)))) {
    // The client only looked whether the port is open, or waits no more.
    table_.Remove(fd);
    close(fd);
    return;
  }
  const bool is_any = options_.first_bytes == kAnyByte;
  if (!is_any && begin != options_.first_bytes.substr(0, begin.size())) {
    return CloseStranger(fd, begin);
  }
  if (begin.size() < wanted || table_.IsReady(fd)) return;
  const Turn turn = TryHandOver(fd);
  if (turn == Turn::kNow) return;
  if (turn == Turn::kPaced) ++stats_.paced;
  table_.SetReady(fd);
}

Acceptor::Turn Acceptor::TryHandOver(int fd) {
  const uint64_t identity = SocketIdentity(fd);
  const auto now = Clock::now();
  const std::string& peer = table_.PeerOf(fd);
  const bool is_paced = options_.paces_peers;
  const auto of_peer = is_paced || handshakes_ != nullptr ? floods_.Of(peer) : nullptr;
  if (is_paced && !of_peer->MayOpen(now)) return Turn::kPaced;
  TlsArrival arrival;
  if (handshakes_ != nullptr) {
    if (!of_peer->MayBeginHandshake(now)) return Turn::kPaced;
    if (!handshakes_->FindPlace(peer, now)) return Turn::kNoHandshake;
    arrival.handshake = handshakes_->Begin(fd, identity, peer, now, of_peer);
  }
  arrival.flood = std::make_shared<ConnectionFlood>(of_peer, flood_report_->Of(fd));
  if (is_paced) of_peer->Open(now);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  table_.HandOver(fd, identity, now + options_.handshake_timeout);
  if (is_paced) NoteFlood(PeerName(fd), arrival.flood);
  if (options_.watches_floods) WatchReceived(fd, arrival.flood);
  ++stats_.accepted;
  std::optional<TlsHandOver> hand_over;
  if (options_.first_bytes == kTlsHandshake) hand_over.emplace(std::move(arrival));
  hand_over_(fd);
  return Turn::kNow;
}

void Acceptor::HandOverReady() {
  const auto now = Clock::now();
  if (table_.ready().empty() || now - last_ready_ < kReadyInterval) return;
  last_ready_ = now;
  std::vector<int> ready(table_.ready().begin(), table_.ready().end());
  // The newest go first in every other turn: a client then seldom waits for the flood of its own
  // address that came before, and never longer than for that.
  if (++num_turns_ % kOldestEvery != 0) std::ranges::reverse(ready);
  // Addresses without a handshake go before those that have some, and so do not wait for a flood.
  if (handshakes_ != nullptr) {
    std::ranges::stable_partition(
        ready, [this](int fd) { return !handshakes_->HasAnyOf(table_.PeerOf(fd)); });
  }
  absl::flat_hash_set<std::string> full;  // peers without a place
  for (const int fd : ready) {
    if (full.contains(table_.PeerOf(fd))) continue;
    if (TryHandOver(fd) != Turn::kNow) full.insert(table_.PeerOf(fd));
  }
}

void Acceptor::CloseStranger(int fd, std::string_view begin) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size);
  // The two that clients of other settings begin with; others are nobody's clients.
  constexpr std::array<std::string_view, 4> kPlainText = {kHttp2Preface, "GET", "POST", "HEAD"};
  const bool is_plain = std::ranges::any_of(
      kPlainText, [begin](std::string_view text) { return text.starts_with(begin); });
  if (options_.first_bytes == kTlsHandshake && is_plain) {
    protocol_error_.Log(fmt::format(
        "refused a connection of {}: its client speaks without TLS, which this server asks for",
        AddressText(address)));
  } else if (options_.first_bytes == kHttp2Preface && begin.starts_with(kTlsHandshake)) {
    protocol_error_.Log(fmt::format(
        "refused a connection of {}: its client speaks TLS, and tls_certificate_file is not set",
        AddressText(address)));
  } else if (options_.first_bytes == kHttp2Preface && IsPlainHttp(begin)) {
    protocol_error_.Log(fmt::format("refused a connection of {}: its client speaks HTTP/1.1; {}",
                                    AddressText(address), options_.http_hint));
    return AnswerHttp(fd);
  }
  CloseSilent(fd, Refusal::kProtocol);
}

void Acceptor::AnswerHttp(int fd) {
  stats_.Count(Refusal::kProtocol);
  table_.Remove(fd);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  http_farewell_.Answer(UniqueFd(fd), Clock::now());
}

void Acceptor::CloseSilent(int fd, Refusal reason) {
  stats_.Count(reason);
  table_.Remove(fd);
  close(fd);  // which ends its watching too
}

void Acceptor::EndIdle(int fd) {
  // Its owner may have closed it just now, and its number may be another connection's.
  if (SocketIdentity(fd) == table_.IdentityOf(fd)) {
    shutdown(fd, SHUT_RDWR);
    stats_.Count(Refusal::kDisplaced);
  }
  table_.Remove(fd);
}

void Acceptor::CloseOverdue(Clock::time_point now) {
  for (auto due = table_.NextDeadline(); due.has_value() && *due <= now;
       due = table_.NextDeadline()) {
    CloseSilent(*table_.OldestSilent(), Refusal::kTimeout);
  }
  http_farewell_.CloseOverdue(now);
}

void Acceptor::Sweep(Clock::time_point now) {
  last_sweep_ = now;
  table_.RemoveClosed([](int fd, uint64_t identity) { return SocketIdentity(fd) == identity; });
  floods_.Forget(now);
  if (!paused_ && !table_.full()) SetAccepting(true);
}

bool Acceptor::OnAcceptError(int listener, int error) {
  // Without a free descriptor accept() fails even when nobody waits.
  if (IsReadable(listener)) {
    CountAcceptError(error);
    // A silent connection gives its descriptor to one that may have something to say.
    if (const auto silent = table_.OldestSilent()) {
      CloseSilent(*silent, Refusal::kDisplaced);
      return true;
    }
    // So does an idle one, once its owner has closed it.
    if (options_.is_idle != nullptr) {
      if (const auto idle = table_.OldestIdle(nullptr, options_.is_idle)) EndIdle(*idle);
    }
  } else if (accepting_) {
    return false;
  }
  Pause();
  return false;
}

void Acceptor::CountAcceptError(int error) {
  ++stats_.accept_errors;
  accept_error_.Log(fmt::format("cannot accept a connection: {}", ErrorText(error)));
}

void Acceptor::Pause() {
  SetAccepting(false);
  pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  resume_at_ = Clock::now() + pause_;
  paused_ = true;
  Listen(false);
}

void Acceptor::Listen(bool on) {
  for (const UniqueFd& listener : sockets_.sockets) {
    Register(epoll_.get(), EPOLL_CTL_MOD, listener.get(), on ? uint32_t{EPOLLIN} : 0);
  }
}

void Acceptor::Resume() {
  paused_ = false;
  Listen(!held_.has_value());
  // This tells whether there is a free descriptor, also when nobody waits.
  for (const UniqueFd& listener : sockets_.sockets) AcceptAll(listener.get());
  if (!paused_ && !table_.full()) SetAccepting(true);
}

void Acceptor::SetAccepting(bool accepting) {
  if (accepting == accepting_) return;
  accepting_ = accepting;
  stats_.accepting = accepting;
  if (accepting) spdlog::info("accepting connections again");
  on_accepting_(accepting);
}

}  // namespace beamline
