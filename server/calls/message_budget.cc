#include "server/calls/message_budget.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

namespace beamline {
namespace {

constexpr int64_t kFewestPlaces = 32;
// For connections that have none, so many times the usual places. Their time is short: what they
// take is bounded by what the network brings in that.
constexpr int64_t kExtraPlaces = 16;
// How often the thread looks for those that are late: nothing wakes it for each call.
constexpr std::chrono::milliseconds kLongestPause{1000};

}  // namespace

MessageBudget::MessageBudget(const Options& options, MessageStats& stats)
    : options_(options),
      num_places_(
          std::max(kFewestPlaces, options.bytes / std::max<int64_t>(1, options.message_bytes))),
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
  entry.client_ = client;
  entry.connection_ = connection;
  entry.since_ = Clock::now();
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { Run(); });
    } catch (const std::system_error&) {
      // The system has no thread left: the next call tries again, and what is late ends later.
    }
  }
  entry.is_in_ = true;
  entry.in_all_ = all_.insert(all_.end(), &entry);
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

bool MessageBudget::Leave(Entry& entry) {
  Placed placed;
  {
    std::lock_guard lock(mutex_);
    if (!entry.is_in_) return false;
    TakeOut(entry);
    if (num_waiting_ > 0) placed = PlaceWaiting();
  }
  TellPlaced(placed);
  return true;
}

bool MessageBudget::Withdraw(Entry& entry) {
  std::lock_guard lock(mutex_);
  if (!entry.is_in_ || entry.has_place_) return false;
  TakeOut(entry);
  return true;
}

void MessageBudget::TellPlaced(const Placed& placed) {
  if (placed.empty()) return;
  for (const auto& [entry, number] : placed) entry->OnPlace();
  std::lock_guard lock(mutex_);
  for (const auto& [entry, number] : placed) {  // some of which are gone
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

void MessageBudget::Run() {
  const auto pause = std::min(kLongestPause, std::max(options_.time / 4, kLongestPause / 100));
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    changed_.wait_for(lock, pause);
    const auto now = Clock::now();
    std::vector<std::pair<Entry*, bool>> late;
    for (auto it = all_.begin(); it != all_.end();) {
      Entry* const entry = *it++;
      const bool is_extra = entry->has_place_ && entry->is_extra_;
      const auto time = is_extra ? options_.extra_time : options_.time;
      if (now - entry->since_ < time || placing_.contains(entry)) continue;
      late.emplace_back(entry, entry->has_place_);
      TakeOut(*entry);
    }
    if (late.empty()) continue;
    const Placed placed = num_waiting_ > 0 ? PlaceWaiting() : Placed();
    stats_.late += late.size();
    lock.unlock();
    for (const auto& [entry, had_place] : late) entry->OnLate(had_place);
    TellPlaced(placed);
    lock.lock();
  }
}

}  // namespace beamline
