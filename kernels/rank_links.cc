// Long because how messages move and how a fault ends that share the connections and their states.
#include "kernels/rank_links.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/check.h"
#include "fmt/format.h"
#include "kernels/rank_sockets.h"

namespace beamline {
namespace {

using std::chrono::milliseconds;

constexpr uint32_t kMagic = 0x4b4e5242;  // in another byte order another number
constexpr size_t kMostReasonBytes = 4096;
// How often somebody looks whether the others are still there, and whether to stop.
constexpr milliseconds kLook{100};

const char* NameOfKind(RankLinks::Kind kind) {
  constexpr std::array kNames = {"a sum",  "columns", "a broadcast", "candidates", "rows",
                                 "a call", "a reply", "a fault",     "the end"};
  const size_t index = static_cast<size_t>(kind) - 1;
  return index < kNames.size() ? kNames[index] : "something unknown";
}

}  // namespace

// Of a message.
struct RankLinks::Header {
  uint32_t magic = kMagic;
  Kind kind = Kind::kCall;
  uint64_t bytes = 0;
};

RankLinks::Transfer RankLinks::Transfer::To(int rank, Kind kind, const void* data, size_t bytes) {
  return {.rank = rank,
          .kind = kind,
          .sends = true,
          .data = const_cast<char*>(static_cast<const char*>(data)),
          .bytes = bytes};
}

RankLinks::Transfer RankLinks::Transfer::From(int rank, Kind kind, void* data, size_t bytes) {
  return {.rank = rank, .kind = kind, .data = static_cast<char*>(data), .bytes = bytes};
}

RankLinks::Transfer RankLinks::Transfer::From(int rank, Kind kind, std::string& arrives) {
  return {.rank = rank, .kind = kind, .arrives = &arrives};
}

// A transfer, and how far it is.
struct RankLinks::Progress {
  explicit Progress(const Transfer& of, Link& over) : transfer(of), link(over) {
    header.kind = of.kind;
    header.bytes = of.bytes;
  }

  Transfer transfer;
  Link& link;
  Header header;
  size_t header_done = 0;
  size_t done = 0;
  std::string reason;  // of a fault that arrives instead

  bool over() const { return header_done == sizeof(header) && done == header.bytes; }
};

absl::StatusOr<std::shared_ptr<RankLinks>> RankLinks::Gather(const RankDoor& door) {
  auto listener = ListenAt(door);
  if (!listener.ok()) return listener.status();
  return Gather(door, *std::move(listener));
}

absl::StatusOr<std::shared_ptr<RankLinks>> RankLinks::Gather(const RankDoor& door,
                                                             RankSocket listener) {
  auto sockets = AcceptRanks(door, std::move(listener));
  if (!sockets.ok()) return sockets.status();
  std::vector<Link> links;
  for (int rank = 1; rank < door.size; ++rank) {
    RankSocket& socket = (*sockets)[static_cast<size_t>(rank) - 1];
    links.push_back({rank, socket.Release(), socket.address()});
  }
  return std::shared_ptr<RankLinks>(new RankLinks(door, 0, std::move(links)));
}

absl::StatusOr<std::shared_ptr<RankLinks>> RankLinks::Join(const RankDoor& door, int rank) {
  auto socket = ConnectToFront(door, rank);
  if (!socket.ok()) return socket.status();
  const std::string address = socket->address();
  return std::shared_ptr<RankLinks>(
      new RankLinks(door, rank, {{.rank = 0, .socket = socket->Release(), .address = address}}));
}

RankLinks::RankLinks(const RankDoor& door, int rank, std::vector<Link> links)
    : rank_(rank),
      size_(door.size),
      names_(door.names),
      time_limit_(door.time_limit),
      links_(std::move(links)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  BEAMLINE_CHECK(wake_ >= 0 && (names_.empty() || static_cast<int>(names_.size()) == size_));
  watch_ = std::thread([this] { Watch(); });
}

RankLinks::~RankLinks() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  watch_.join();
  End();
  for (const Link& link : links_) close(link.socket);
  close(wake_);
}

void RankLinks::End() {
  SetFault(absl::CancelledError(fmt::format("rank {} has ended", NumberOf(rank_))));
  std::lock_guard moving(moving_);
  TellFault();
}

int RankLinks::NumberOf(int rank) const {
  return names_.empty() ? rank : names_[static_cast<size_t>(rank)];
}

std::string RankLinks::own_host() const { return HostOf(links_.front().socket); }

std::vector<int> RankLinks::others() const {
  std::vector<int> ranks;
  for (const Link& link : links_) ranks.push_back(link.rank);
  return ranks;
}

RankLinks::Link& RankLinks::LinkOf(int rank) {
  return const_cast<Link&>(std::as_const(*this).LinkOf(rank));
}

const RankLinks::Link& RankLinks::LinkOf(int rank) const {
  const auto link = std::ranges::find(links_, rank, &Link::rank);
  BEAMLINE_CHECK(link != links_.end());
  return *link;
}

std::string RankLinks::NameOf(int rank) const {
  return fmt::format("rank {} at {}", NumberOf(rank), LinkOf(rank).address);
}

absl::Status RankLinks::fault() const {
  std::lock_guard lock(mutex_);
  return fault_;
}

bool RankLinks::SetFault(const absl::Status& why) {
  BEAMLINE_CHECK(!why.ok());
  {
    std::lock_guard lock(mutex_);
    if (!fault_.ok()) return false;
    fault_time_ = std::chrono::steady_clock::now();
    fault_ = absl::IsCancelled(why) ? why : absl::UnavailableError(std::string(why.message()));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(wake_, &one, sizeof(one));
  changed_.notify_all();
  return true;
}

void RankLinks::Fail(const absl::Status& why) {
  if (!SetFault(absl::UnavailableError(std::string(why.message())))) return;
  std::lock_guard moving(moving_);  // who moves messages lets go of them at once
  TellFault();
}

absl::Status RankLinks::Look() {
  WithLinks([this] {
    if (!fault().ok()) return;
    for (const Link& link : links_) LookForLost(link);
  });
  return fault();
}

void RankLinks::WithLinks(absl::FunctionRef<void()> work) {
  {
    std::lock_guard moving(moving_);
    work();
  }
  if (fault().ok()) return;
  std::lock_guard moving(moving_);
  TellFault();
}

// As far as it goes without waiting: who cannot be told finds that nothing more comes.
void RankLinks::TellFault() {
  if (std::exchange(told_, true)) return;
  const absl::Status why = fault();
  const std::string reason(why.message().substr(0, kMostReasonBytes));
  const Header header = {.kind = absl::IsCancelled(why) ? Kind::kEnd : Kind::kFault,
                         .bytes = reason.size()};
  std::string message(reinterpret_cast<const char*>(&header), sizeof(header));
  message += reason;
  for (const Link& link : links_) {
    const bool is_told =
        !link.cut && send(link.socket, message.data(), message.size(),
                          MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(message.size());
    if (!is_told) shutdown(link.socket, SHUT_WR);
  }
}

// What says that a rank's device does nothing any more is that nothing more comes of the rank: of
// the followers first, then of the front, which has seen it of all of them.
void RankLinks::Part(std::chrono::nanoseconds limit) {
  std::lock_guard moving(moving_);
  TellFault();
  const auto say = [this] {
    for (const Link& link : links_) shutdown(link.socket, SHUT_WR);
  };
  if (rank_ > 0) say();
  AwaitEnds(limit);
  std::unique_lock lock(mutex_);
  const auto end = is_unheard_ ? fault_time_ + kUnheardTime : fault_time_;
  lock.unlock();
  std::this_thread::sleep_until(end);
  if (rank_ == 0) say();
}

// Until nothing more comes over any connection. What comes is of no interest.
void RankLinks::AwaitEnds(std::chrono::nanoseconds limit) {
  std::vector<pollfd> waits;
  for (const Link& link : links_) waits.push_back({link.socket, POLLIN, 0});
  const auto has_ended = [](const pollfd& wait) {
    if (wait.revents == 0) return false;
    std::array<char, 4096> rest;
    const ssize_t received = recv(wait.fd, rest.data(), rest.size(), MSG_DONTWAIT);
    return received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
  };
  for (std::chrono::nanoseconds waited{}; !waits.empty() && waited < limit;) {
    if (poll(waits.data(), waits.size(), static_cast<int>(kLook.count())) <= 0) {
      waited += kLook;
    } else {
      std::erase_if(waits, has_ended);
    }
  }
}

void RankLinks::Lose(const Link& link, std::string_view how) {
  const std::string why = fmt::format("rank {} at {} {}", NumberOf(link.rank), link.address, how);
  if (!SetFault(absl::UnavailableError(why))) return;
  std::lock_guard lock(mutex_);
  is_unheard_ = true;
}

void RankLinks::TakeFault(const Link& link, const std::string& why, Kind kind) {
  if (kind == Kind::kFault) {
    SetFault(absl::UnavailableError(why));
    return;
  }
  // The front ends when nothing more is to be done; a follower that ends takes its part along.
  if (link.rank != 0) return Lose(link, "has ended");
  SetFault(absl::CancelledError(fmt::format(
      "{} at {} has ended", names_.empty() ? "the front" : fmt::format("rank {}", NumberOf(0)),
      link.address)));
}

bool RankLinks::Move(std::span<const Transfer> transfers, const Patience& patience) {
  bool moved = false;
  WithLinks([&] {
    std::vector<Progress> moving;
    for (const Transfer& transfer : transfers) {
      BEAMLINE_CHECK(transfer.bytes <= kMostBytes);
      moving.emplace_back(transfer, LinkOf(transfer.rank));
    }
    moved = fault().ok() && MoveAll(moving, patience);
    for (const Progress& each : moving) {
      const bool begun = each.header_done > 0 || each.done > 0;
      if (each.transfer.sends && begun && !each.over()) each.link.cut = true;
    }
  });
  return moved;
}

bool RankLinks::Tell(Kind kind, std::string_view message) {
  std::vector<Transfer> transfers;
  for (const int other : others()) {
    transfers.push_back(Transfer::To(other, kind, message.data(), message.size()));
  }
  return Move(transfers);
}

bool RankLinks::MoveAll(std::span<Progress> moving, const Patience& patience) {
  std::vector<pollfd> waits;
  std::chrono::nanoseconds waited{};
  while (true) {
    bool went_on = false;
    waits.assign(1, {.fd = wake_, .events = POLLIN, .revents = 0});
    for (Progress& each : moving) {
      if (each.over()) continue;
      went_on = GoOn(each) || went_on;
      if (!fault().ok()) return false;
      if (each.over()) continue;
      const short events = each.transfer.sends ? POLLOUT : POLLIN;
      waits.push_back({.fd = each.link.socket, .events = events, .revents = 0});
    }
    if (waits.size() == 1) return true;
    if (went_on) {
      waited = {};
      continue;
    }
    const int num_ready = poll(waits.data(), waits.size(), static_cast<int>(kLook.count()));
    if (!fault().ok()) return false;
    if (patience.stop != nullptr && *patience.stop) {
      SetFault(absl::UnavailableError(
          fmt::format("rank {} was stopped while it waited", NumberOf(rank_))));
      return false;
    }
    if (num_ready != 0) continue;
    // Looks are counted instead of time: of a process that was stopped none has passed.
    waited += kLook;
    if (!patience.limited || waited < time_limit_) continue;
    const auto late = std::ranges::find_if(moving, [](const auto& each) { return !each.over(); });
    const auto ms = std::chrono::duration_cast<milliseconds>(time_limit_).count();
    Lose(late->link, fmt::format("did not go on within {} ms", ms));
    return false;
  }
}

bool RankLinks::GoOn(Progress& transfer) {
  return transfer.transfer.sends ? GoOnSending(transfer) : GoOnReceiving(transfer);
}

bool RankLinks::GoOnSending(Progress& each) {
  iovec parts[2] = {
      {reinterpret_cast<char*>(&each.header) + each.header_done, sizeof(Header) - each.header_done},
      {each.transfer.data + each.done, each.transfer.bytes - each.done}};
  msghdr message = {};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  const ssize_t sent = sendmsg(each.link.socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    const std::string error = SystemError(errno);
    LookForLost(each.link);  // it may have said why
    Lose(each.link, fmt::format("lost its connection: {}", error));
    return false;
  }
  const size_t of_header = std::min(static_cast<size_t>(sent), parts[0].iov_len);
  each.header_done += of_header;
  each.done += static_cast<size_t>(sent) - of_header;
  return sent > 0;
}

bool RankLinks::TakeHeader(Progress& each) {
  const Transfer& expected = each.transfer;
  if (each.header.magic != kMagic) {
    Lose(each.link, "sent what no rank sends");
    return false;
  }
  if (each.header.kind == Kind::kFault || each.header.kind == Kind::kEnd) {
    if (each.header.bytes > kMostReasonBytes) {
      Lose(each.link, "failed");
      return false;
    }
    each.reason.resize(each.header.bytes);
    each.transfer.data = each.reason.data();
    return true;
  }
  const bool fits = expected.arrives != nullptr ? each.header.bytes <= kMostBytes
                                                : each.header.bytes == expected.bytes;
  if (each.header.kind != expected.kind || !fits) {
    Lose(each.link,
         fmt::format("sent {} of {} bytes where {} was expected", NameOfKind(each.header.kind),
                     each.header.bytes, NameOfKind(expected.kind)));
    return false;
  }
  if (expected.arrives != nullptr) {
    expected.arrives->resize(each.header.bytes);
    each.transfer.data = expected.arrives->data();
  }
  return true;
}

bool RankLinks::GoOnReceiving(Progress& each) {
  const bool in_header = each.header_done < sizeof(Header);
  char* const target = in_header ? reinterpret_cast<char*>(&each.header) + each.header_done
                                 : each.transfer.data + each.done;
  const size_t left = in_header ? sizeof(Header) - each.header_done : each.header.bytes - each.done;
  const ssize_t received = recv(each.link.socket, target, left, MSG_DONTWAIT);
  if (received < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return false;
    Lose(each.link, fmt::format("lost its connection: {}", SystemError(errno)));
    return false;
  }
  if (received == 0) {
    Lose(each.link, "closed the connection");
    return false;
  }
  (in_header ? each.header_done : each.done) += static_cast<size_t>(received);
  if (in_header && each.header_done == sizeof(Header) && !TakeHeader(each)) return false;
  const bool is_fault = each.header.kind == Kind::kFault || each.header.kind == Kind::kEnd;
  if (each.over() && is_fault) TakeFault(each.link, each.reason, each.header.kind);
  return true;
}

// Whether a link has ended while nothing is expected of it. Leaves what is for somebody else.
void RankLinks::LookForLost(const Link& link) {
  Header header;
  const ssize_t seen = recv(link.socket, &header, sizeof(header), MSG_DONTWAIT | MSG_PEEK);
  if (seen == 0) return Lose(link, "closed the connection");
  if (seen < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
    return Lose(link, fmt::format("lost its connection: {}", SystemError(errno)));
  }
  if (seen != sizeof(header) || header.magic != kMagic) return;
  if (header.kind != Kind::kFault && header.kind != Kind::kEnd) return;
  std::vector<char> whole(sizeof(header) + std::min<size_t>(header.bytes, kMostReasonBytes));
  const ssize_t taken = recv(link.socket, whole.data(), whole.size(), MSG_DONTWAIT);
  const std::string reason(whole.begin() + sizeof(header),
                           whole.begin() + std::max<ssize_t>(taken, sizeof(header)));
  TakeFault(link, reason, header.kind);
}

// An idle rank hears of a lost one before its next message.
void RankLinks::Watch() {
  std::unique_lock lock(mutex_);
  while (!ending_ && fault_.ok()) {
    changed_.wait_for(lock, kLook, [&] { return ending_ || !fault_.ok(); });
    if (ending_ || !fault_.ok()) return;
    lock.unlock();
    std::unique_lock moving(moving_, std::try_to_lock);
    if (moving.owns_lock()) {
      for (const Link& link : links_) LookForLost(link);
      if (!fault().ok()) TellFault();
    }
    lock.lock();
  }
}

}  // namespace beamline
