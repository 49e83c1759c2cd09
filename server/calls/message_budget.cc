#include "server/calls/message_budget.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

namespace beamline {
namespace {

constexpr int64_t kFewestPlaces = 32;
// Extra slots, as a multiple of the usual ones, for connections that have none. Their time is
// short, so the network's bandwidth bounds their memory.
constexpr int64_t kExtraPlaces = 16;
// Interval of the thread's checks. The limit may be exceeded by what is received within it. No call
// wakes the thread.
constexpr std::chrono::milliseconds kLongestPause{100};
// A connection without a read is forgotten after this time.
constexpr std::chrono::seconds kForget{5};
// Sample interval of a connection whose reads are all young.
constexpr std::chrono::seconds kRareSample{1};
// Limit of quiet connections sampled per round. If there are more, each is sampled more rarely.
constexpr size_t kQuietInARound = 1000;
// The budget must have room for this many messages of the largest size: two for each of two
// clients.
constexpr int64_t kFewestMessages = 4;
// Above the limit, reads are ended until this many quarters of it are left.
constexpr int64_t kQuartersLeft = 3;

}  // namespace

MessageBudget::MessageBudget(const Options& options, MessageStats& stats)
    : options_(options),
      bytes_(std::max(options.bytes, kFewestMessages * options.message_bytes)),
      num_places_(std::max(kFewestPlaces,
                           options.bytes / 3 * 2 / std::max<int64_t>(1, options.message_bytes))),
      stats_(stats) {}

MessageBudget::~MessageBudget() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool MessageBudget::Enter(Entry& entry, const std::string& client, const std::string& connection) {
  std::lock_guard lock(mutex_);
  Begin(entry, client, connection);
  if (const Place place = FindPlace(entry); place != Place::kNone) {
    GivePlace(entry, place);
    return true;
  }
  std::list<Entry*>& waiting = clients_[client].waiting[connection];
  entry.in_waiting_ = waiting.insert(waiting.end(), &entry);
  ++num_waiting_;
  ++stats_.waiting;
  return false;
}

void MessageBudget::EnterStream(Entry& entry, const std::string& client,
                                const std::string& connection) {
  std::lock_guard lock(mutex_);
  entry.is_stream_ = true;
  Begin(entry, client, connection);
  ++stats_.streams;
}

void MessageBudget::Begin(Entry& entry, const std::string& client, const std::string& connection) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      // The system has no thread left. The next call tries again. Late calls end later.
    }
  }
  const auto now = Clock::now();
  entry.client_ = client;
  entry.connection_ = connection;
  entry.since_ = now;
  entry.read_since_ = now;
  entry.is_in_ = true;
  if (!entry.is_stream_) entry.in_all_ = all_.insert(all_.end(), &entry);
  Connection& of = connections_[connection];
  if (of.entries.empty()) {
    const auto last = of.bytes.last_sample();
    if (!last.has_value() || now - *last > kRareSample) Sample(connection, of, now);
  }
  of.client = client;
  of.last_use = now;
  entry.in_connection_ = of.entries.insert(of.entries.end(), &entry);
  if (std::exchange(resting_, false)) changed_.notify_all();
}

void MessageBudget::Sample(const std::string& name, Connection& connection, Clock::time_point now) {
  if (options_.received == nullptr) return;
  NoteReceived(connection, options_.received(name), now);
}

void MessageBudget::NoteReceived(Connection& connection, std::optional<int64_t> received,
                                 Clock::time_point now) {
  if (!received.has_value()) return;
  std::optional<Clock::time_point> oldest;
  if (!connection.entries.empty()) oldest = connection.entries.front()->read_since_;
  connection.is_quiet = connection.bytes.Sample(*received, now, oldest);
}

std::vector<MessageBudget::Look> MessageBudget::FindUnseen(Clock::time_point now) const {
  std::vector<Look> unseen;
  std::vector<Look> quiet;
  if (options_.received == nullptr) return unseen;
  for (const auto& [name, connection] : connections_) {
    if (connection.entries.empty()) continue;
    const auto last = connection.bytes.last_sample();
    const bool is_young = now - connection.entries.front()->read_since_ < kLongestPause;
    if (is_young && last.has_value() && now - *last <= kRareSample) continue;
    (connection.is_quiet ? quiet : unseen)
        .push_back({.connection = name,
                    .last = last.value_or(Clock::time_point::min()),
                    .delivered = connection.bytes.delivered()});
  }
  // Of many quiet connections, samples those not sampled for longest; all of them if one has woken.
  if (!has_woken_ && quiet.size() > kQuietInARound) {
    std::ranges::nth_element(quiet, quiet.begin() + kQuietInARound, {}, &Look::last);
    quiet.resize(kQuietInARound);
  }
  std::ranges::move(quiet, std::back_inserter(unseen));
  return unseen;
}

void MessageBudget::SampleAll(std::unique_lock<std::mutex>& lock, Clock::time_point now) {
  std::vector<Look> looks = FindUnseen(now);
  if (looks.empty()) return;
  lock.unlock();  // a system call for each
  for (Look& look : looks) look.received = options_.received(look.connection);
  lock.lock();
  has_woken_ = false;
  // A sample later than its measurement overestimates the kept bytes, and never underestimates
  // them.
  const auto seen = Clock::now();
  for (const Look& look : looks) {
    const auto found = connections_.find(look.connection);
    if (found == connections_.end()) continue;
    Connection& connection = found->second;
    // Skips a connection that a call has sampled at its start.
    if (connection.bytes.last_sample().value_or(now) > now) continue;
    const bool was_quiet = connection.is_quiet;
    if (connection.bytes.delivered() == look.delivered) {
      NoteReceived(connection, look.received, seen);
    } else {  // a message has become complete, and the measurement may have missed its end
      Sample(look.connection, connection, seen);
    }
    has_woken_ = has_woken_ || (was_quiet && !connection.is_quiet);
  }
}

bool MessageBudget::Leave(Entry& entry, int64_t bytes) {
  Placed placed;
  {
    std::lock_guard lock(mutex_);
    if (bytes > 0) {
      const auto connection = connections_.find(entry.connection_);
      if (connection != connections_.end()) connection->second.bytes.Deliver(bytes);
    }
    if (!entry.is_in_) return false;
    TakeOut(entry);
    if (num_waiting_ > 0) placed = PlaceWaiting();
  }
  TellPlaced(placed);
  return true;
}

bool MessageBudget::Withdraw(Entry& entry) {
  std::lock_guard lock(mutex_);
  if (!entry.is_in_ || entry.has_place_ || entry.is_stream_) return false;
  TakeOut(entry);
  return true;
}

void MessageBudget::TellPlaced(const Placed& placed) {
  if (placed.empty()) return;
  for (const auto& [entry, number] : placed) entry->OnPlace();
  std::lock_guard lock(mutex_);
  for (const auto& [entry, number] : placed) {  // some may be gone
    const auto found = placing_.find(entry);
    if (found != placing_.end() && found->second == number) placing_.erase(found);
  }
}

MessageBudget::Place MessageBudget::FindPlace(const Entry& entry) const {
  const SharedLimit all = places_.LimitFor(entry.client_, num_places_);
  const auto client = clients_.find(entry.client_);
  if (client == clients_.end()) return all.HasRoom() ? Place::kUsual : Place::kNone;
  SharedLimit of_client = client->second.places.LimitFor(entry.connection_, num_places_ / 2);
  of_client.taken = all.own;
  if (all.HasRoom() && of_client.HasRoom()) return Place::kUsual;
  const SharedLimit extra = extra_places_.LimitFor(entry.client_, kExtraPlaces * num_places_);
  return of_client.own == 0 && extra.HasRoom() ? Place::kExtra : Place::kNone;
}

void MessageBudget::GivePlace(Entry& entry, Place place) {
  entry.has_place_ = true;
  entry.is_extra_ = place == Place::kExtra;
  (entry.is_extra_ ? extra_places_ : places_).Take(entry.client_, 1);
  clients_[entry.client_].places.Take(entry.connection_, 1);
  ++stats_.reading;
}

void MessageBudget::TakeOut(Entry& entry) {
  entry.is_in_ = false;
  connections_[entry.connection_].entries.erase(entry.in_connection_);
  if (entry.is_stream_) {
    --stats_.streams;
    return;
  }
  all_.erase(entry.in_all_);
  placing_.erase(&entry);
  const auto client = clients_.find(entry.client_);
  if (entry.has_place_) {
    (entry.is_extra_ ? extra_places_ : places_).Give(entry.client_, 1);
    client->second.places.Give(entry.connection_, 1);
    --stats_.reading;
  } else {
    const auto waiting = client->second.waiting.find(entry.connection_);
    waiting->second.erase(entry.in_waiting_);
    if (waiting->second.empty()) client->second.waiting.erase(waiting);
    --num_waiting_;
    --stats_.waiting;
  }
  const bool is_empty = client->second.places.total() == 0 && client->second.waiting.empty();
  if (is_empty) clients_.erase(client);
}

MessageBudget::Placed MessageBudget::PlaceWaiting() {
  Placed placed;
  for (auto& [name, client] : clients_) {
    for (auto of = client.waiting.begin(); of != client.waiting.end();) {
      std::list<Entry*>& waiting = of->second;
      while (!waiting.empty()) {
        Entry* const entry = waiting.front();
        const Place place = FindPlace(*entry);
        if (place == Place::kNone) break;
        waiting.pop_front();
        GivePlace(*entry, place);
        entry->since_ = Clock::now();
        --num_waiting_;
        --stats_.waiting;
        placed.emplace_back(entry, placing_[entry] = next_placing_++);
      }
      of = waiting.empty() ? client.waiting.erase(of) : std::next(of);
    }
  }
  return placed;
}

void MessageBudget::FindLate(Clock::time_point now, Ending& ending) {
  for (auto it = all_.begin(); it != all_.end();) {
    Entry* const entry = *it++;
    const bool is_extra = entry->has_place_ && entry->is_extra_;
    const auto time = is_extra ? options_.extra_time : options_.time;
    if (now - entry->since_ < time || placing_.contains(entry)) continue;
    ending.emplace_back(entry, entry->has_place_ ? Late::kNotWhole : Late::kNoPlace);
    TakeOut(*entry);
  }
}

void MessageBudget::FindTooMuch(Clock::time_point now, Ending& ending) {
  struct Use {
    int64_t kept = 0;
    std::vector<std::pair<int64_t, Connection*>> connections;
  };
  std::map<std::string, Use> clients;
  int64_t kept = 0;
  for (auto it = connections_.begin(); it != connections_.end();) {
    auto& [name, connection] = *it;
    if (connection.entries.empty()) {
      it = now - connection.last_use > kForget ? connections_.erase(it) : std::next(it);
      continue;
    }
    const int64_t own = connection.bytes.kept();
    if (own > 0) {
      kept += own;
      Use& use = clients[connection.client];
      use.kept += own;
      use.connections.emplace_back(own, &connection);
    }
    ++it;
  }
  stats_.bytes = kept;
  // First the clients above their half, then the largest ones.
  std::vector<Use*> most;
  for (auto& [name, use] : clients) most.push_back(&use);
  std::ranges::sort(most, std::greater<>(), [](const Use* use) { return use->kept; });
  for (Use* const use : most) {
    const bool is_over = use->kept > bytes_ / 2 || kept > bytes_;
    if (!is_over) break;
    const int64_t left = std::min(bytes_ / 2, use->kept) / 4 * kQuartersLeft;
    std::ranges::sort(use->connections, std::greater<>());
    const int64_t before = use->kept;
    for (const auto& [own, connection] : use->connections) {
      if (use->kept <= left) break;
      EndReads(*connection, std::max<int64_t>(0, own - (use->kept - left)), now, ending);
      use->kept -= own - connection->bytes.kept();
    }
    kept -= before - use->kept;
  }
}

void MessageBudget::EndReads(Connection& connection, int64_t most, Clock::time_point now,
                             Ending& ending) {
  // A recent read stays if no more was received since its start than may be kept.
  Clock::time_point since = now;
  for (const int age_ms : {8000, 4000, 2000, 1000, 500}) {
    const std::chrono::milliseconds age(age_ms);
    if (connection.bytes.ReceivedSince(now - age) > most) continue;
    since = now - age;
    break;
  }
  bool is_any_left = false;
  for (auto it = connection.entries.begin(); it != connection.entries.end();) {
    Entry* const entry = *it++;
    if (entry->read_since_ >= since) break;
    if (placing_.contains(entry)) {
      is_any_left = true;
      continue;
    }
    ending.emplace_back(entry, Late::kTooMuch);
    TakeOut(*entry);
  }
  if (!is_any_left) connection.bytes.GiveUpBefore(since);
}

std::chrono::milliseconds MessageBudget::Pause() const {
  return std::min(kLongestPause, std::max(options_.time / 4, kLongestPause / 10));
}

void MessageBudget::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (connections_.empty()) {
      resting_ = true;
      changed_.wait(lock, [this] { return stopping_ || !resting_; });
    } else {
      changed_.wait_for(lock, Pause());
    }
    if (stopping_) return;
    const auto now = Clock::now();
    Ending ending;
    SampleAll(lock, now);
    FindLate(now, ending);
    FindTooMuch(now, ending);
    if (ending.empty()) continue;
    const Placed placed = num_waiting_ > 0 ? PlaceWaiting() : Placed();
    stats_.late += ending.size();
    lock.unlock();
    for (const auto& [entry, why] : ending) entry->OnLate(why);
    TellPlaced(placed);
    lock.lock();
  }
}

}  // namespace beamline
