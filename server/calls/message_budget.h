// Bounds the memory of incomplete requests. gRPC keeps a message until it is complete, also one
// that is larger than allowed, and does not tell its size so far. Two limits:
// - A call with one request is read once it has a slot. What its client sends before stays in the
//   client's connection, except for the first bytes (HTTP/2 flow control).
// - The bytes of incomplete messages are estimated per connection (connection_bytes.h). When one
//   client, or all together, keep too many, the oldest reads are ended. This includes streams of
//   requests, which read all the time and have no slots.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/shared_limit.h"
#include "engine/api/request.h"
#include "server/calls/connection_bytes.h"
#include "server/telemetry/metrics/message_stats.h"

namespace beamline {

// Thread safe.
class MessageBudget {
 public:
  struct Options {
    // Limit of the bytes of all incomplete messages. At the limit reads are ended. One client gets
    // at most half. Two thirds of it are divided into slots.
    int64_t bytes = int64_t{384} << 20;
    int64_t message_bytes = 4 << 20;  // largest message
    // Time for a message to be complete. Counts from the start of the call, or from its slot if it
    // waited for one.
    std::chrono::milliseconds time{60'000};
    // The same for a call with an extra slot.
    std::chrono::milliseconds extra_time{10'000};
    // Bytes received so far on a connection (received_bytes.h). Null: not known.
    std::function<std::optional<int64_t>(const std::string& connection)> received;
  };
  // The reason why a call is ended.
  enum class Late : uint8_t {
    kNoPlace,   // its time ended before it had a slot
    kNotWhole,  // its time ended during the read
    kTooMuch    // its client keeps too many bytes of incomplete messages
  };
  // `stats` outlives the budget.
  MessageBudget(const Options& options, MessageStats& stats);
  // REQUIRES: no entry is left.
  ~MessageBudget();

  // A call that waits for its slot or reads its message, or a read in flight of a stream.
  class Entry {
   public:
    virtual ~Entry() = default;
    // The entry has a slot now: start the read. Called once, on any thread; must not block. The
    // budget does not end the call before this returns.
    virtual void OnPlace() = 0;
    // End the call. Called once, on the budget's thread. Nothing else is called afterwards.
    virtual void OnLate(Late why) = 0;

   private:
    friend class MessageBudget;
    std::string client_;
    std::string connection_;
    Clock::time_point since_;       // start of its time
    Clock::time_point read_since_;  // the read may have received bytes since then
    bool is_in_ = false;
    bool has_place_ = false;
    bool is_extra_ = false;               // it has an extra slot
    bool is_stream_ = false;              // needs no slot, and has no time limit
    std::list<Entry*>::iterator in_all_;  // valid unless it is a stream's
    std::list<Entry*>::iterator in_connection_;
    std::list<Entry*>::iterator in_waiting_;  // valid until it has a slot
  };

  // Call at the start of a call. One client gets at most half of the slots. One of its connections
  // cannot take the last of these. A connection without a slot gets an extra slot if the usual ones
  // are taken and extra ones are left. Returns true if the entry has a slot now. Otherwise OnPlace
  // is called later.
  bool Enter(Entry& entry, const std::string& client, const std::string& connection);
  // A stream's read starts. It has no time limit.
  void EnterStream(Entry& entry, const std::string& client, const std::string& connection);
  // The read ended with a message of `bytes`, or without one (0). Returns false if OnLate was
  // called or is about to be.
  bool Leave(Entry& entry, int64_t bytes);
  // The call is cancelled. Returns true if it waited for a slot: it is removed then, and no read
  // was started.
  bool Withdraw(Entry& entry);

  int64_t num_places() const { return num_places_; }
  std::chrono::milliseconds time() const { return options_.time; }
  std::chrono::milliseconds extra_time() const { return options_.extra_time; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Client {
    ClientCounts places;                               // slots taken, by connection
    std::map<std::string, std::list<Entry*>> waiting;  // by connection, oldest first
  };

  struct Connection {
    std::string client;
    ConnectionBytes bytes;
    std::list<Entry*> entries;  // oldest first
    Clock::time_point last_use;
    bool is_quiet = false;  // nothing was received between the last two samples
  };

  // REQUIRE mutex_.
  enum class Place : uint8_t { kNone, kUsual, kExtra };
  Place FindPlace(const Entry& entry) const;
  void GivePlace(Entry& entry, Place place);
  void TakeOut(Entry& entry);
  // Gives slots to waiting entries as far as there are any. Returns these entries with their
  // numbers in placing_.
  using Placed = std::vector<std::pair<Entry*, uint64_t>>;
  Placed PlaceWaiting();

  void Begin(Entry& entry, const std::string& client, const std::string& connection);
  void Sample(const std::string& name, Connection& connection, Clock::time_point now);
  void NoteReceived(Connection& connection, std::optional<int64_t> received, Clock::time_point now);
  struct Look {
    std::string connection;
    Clock::time_point last;  // time of the last sample
    int64_t delivered = 0;
    std::optional<int64_t> received;
  };
  // Connections with pending reads that were not sampled lately.
  std::vector<Look> FindUnseen(Clock::time_point now) const;
  // Samples them. Unlocks `lock` meanwhile.
  void SampleAll(std::unique_lock<std::mutex>& lock, Clock::time_point now);
  // Calls to end, already removed.
  using Ending = std::vector<std::pair<Entry*, Late>>;
  void FindLate(Clock::time_point now, Ending& ending);
  // Adds the reads of connections that keep too many bytes.
  void FindTooMuch(Clock::time_point now, Ending& ending);
  void EndReads(Connection& connection, int64_t most, Clock::time_point now, Ending& ending);
  std::chrono::milliseconds Pause() const;

  void TellPlaced(const Placed& placed);  // without mutex_

  void Run();

  const Options options_;
  const int64_t bytes_;
  const int64_t num_places_;
  MessageStats& stats_;
  mutable std::mutex mutex_;
  // All of this is guarded by mutex_.
  ClientCounts places_;                    // slots by client, without extra ones
  ClientCounts extra_places_;              // by client
  std::map<std::string, Client> clients_;  // clients with an entry
  int64_t num_waiting_ = 0;
  std::list<Entry*> all_;                          // without streams
  std::map<std::string, Connection> connections_;  // with an entry now or recently
  // Entries whose OnPlace is about to be called. They are not ended meanwhile.
  std::map<Entry*, uint64_t> placing_;
  uint64_t next_placing_ = 0;
  bool has_woken_ = false;  // a connection that was quiet received bytes, as of the last samples
  bool stopping_ = false;
  bool resting_ = false;  // the thread sleeps until it is woken
  std::condition_variable changed_;
  std::thread thread_;  // starts with the first entry
};

}  // namespace beamline
