// The requests of calls that have begun and are not whole yet. gRPC keeps what has come of a
// message until it is whole, and tells nobody how much that is: so a message is read once there is
// a place for one of the largest size, and what its client sends before that stays in its own
// connection, but for the first bytes (HTTP/2's flow control).
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/shared_limit.h"
#include "engine/api/request.h"
#include "server/metrics/message_stats.h"

namespace beamline {

// Thread safe.
class MessageBudget {
 public:
  struct Options {
    int64_t bytes = int64_t{256} << 20;  // of all messages together
    int64_t message_bytes = 4 << 20;     // of one, at most
    // From a call's begin, or from its place where it waited for one, until its message is whole.
    std::chrono::milliseconds time{60'000};
    // The same of one with an extra place.
    std::chrono::milliseconds extra_time{10'000};
  };
  // `stats` outlives it.
  MessageBudget(const Options& options, MessageStats& stats);
  // REQUIRES: no entry is left.
  ~MessageBudget();

  // A call whose message is to be read.
  class Entry {
   public:
    virtual ~Entry() = default;
    // There is a place now: the message may be read. Once, on any thread; must not wait. Nothing
    // ends the call before this is called, but a failed read.
    virtual void OnPlace() = 0;
    // The time is over, with or without a place. Once, on a thread of the budget's; nothing else is
    // called afterwards. `had_place`: the message was being read.
    virtual void OnLate(bool had_place) = 0;

   private:
    friend class MessageBudget;
    std::string client_;
    std::string connection_;
    Clock::time_point since_;
    bool is_in_ = false;
    bool has_place_ = false;
    bool is_extra_ = false;  // the place
    std::list<Entry*>::iterator in_all_;
    std::list<Entry*>::iterator in_waiting_;  // unless it has a place
  };

  // At the call's begin. `client`: has half of the places, of which one of its connections leaves
  // the last to others. A connection without any has an extra place then, while there are some.
  // True: it has a place at once; else OnPlace comes later.
  bool Enter(Entry& entry, const std::string& client, const std::string& connection);
  // The read is over, well or not. False: OnLate has been called, or is about to be.
  bool Leave(Entry& entry);
  // The call is cancelled. Whether it waited without a place: it is out then, and has no read.
  bool Withdraw(Entry& entry);

  int64_t num_places() const { return num_places_; }
  std::chrono::milliseconds time() const { return options_.time; }
  std::chrono::milliseconds extra_time() const { return options_.extra_time; }

 private:
  struct Client {
    ClientCounts places;                               // by connection
    std::map<std::string, std::list<Entry*>> waiting;  // by connection, the longest first
  };

  // REQUIRE mutex_.
  enum class Place : uint8_t { kNone, kUsual, kExtra };
  Place FindPlace(const Entry& entry) const;
  void GivePlace(Entry& entry, Place place);
  void TakeOut(Entry& entry);
  // Those that wait and find a place now, which they have; with numbers for placing_.
  using Placed = std::vector<std::pair<Entry*, uint64_t>>;
  Placed PlaceWaiting();

  void TellPlaced(const Placed& placed);  // without mutex_

  void Run();

  const Options options_;
  const int64_t num_places_;
  MessageStats& stats_;
  mutable std::mutex mutex_;
  // All of this is guarded by mutex_.
  ClientCounts places_;                    // by client, without the extra ones
  ClientCounts extra_places_;              // by client
  std::map<std::string, Client> clients_;  // those with an entry
  int64_t num_waiting_ = 0;
  std::list<Entry*> all_;
  // Those whose OnPlace is about to be called; they are not late meanwhile.
  std::map<Entry*, uint64_t> placing_;
  uint64_t next_placing_ = 0;
  bool stopping_ = false;
  std::condition_variable changed_;
  std::thread thread_;  // begins with the first entry
};

}  // namespace beamline
