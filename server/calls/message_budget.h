// The requests of calls that have begun and are not whole yet. gRPC keeps what has come of a
// message until it is whole, also of one that is larger than any may be, and does not tell how much
// that is. Two things bound it:
// - A call with one request is read once there is a place for it. What its client sends before that
//   stays in its own connection, but for the first bytes (HTTP/2's flow control).
// - What a connection keeps of messages that are not whole is estimated (connection_bytes.h). Where
//   that is too much of one client, or in all, reads end that have waited the longest: those of
//   streams of requests too, which read all the time and have no place.
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
#include "server/metrics/message_stats.h"

namespace beamline {

// Thread safe.
class MessageBudget {
 public:
  struct Options {
    // That all messages keep together before reads end; half of it for one client. Two thirds of it
    // are places.
    int64_t bytes = int64_t{384} << 20;
    int64_t message_bytes = 4 << 20;  // of one, at most
    // From a call's begin, or from its place where it waited for one, until its message is whole.
    std::chrono::milliseconds time{60'000};
    // The same of one with an extra place.
    std::chrono::milliseconds extra_time{10'000};
    // What has been received of a connection by now, as received_bytes.h says; null: none is known.
    std::function<std::optional<int64_t>(const std::string& connection)> received;
  };
  // Why a call ends.
  enum class Late : uint8_t {
    kNoPlace,   // its time is over before it had a place
    kNotWhole,  // its time is over while its message was being read
    kTooMuch    // its client keeps too much of messages that are not whole
  };
  // `stats` outlives it.
  MessageBudget(const Options& options, MessageStats& stats);
  // REQUIRES: no entry is left.
  ~MessageBudget();

  // A call whose message is to be read, or a stream's read that is in flight.
  class Entry {
   public:
    virtual ~Entry() = default;
    // There is a place now: the message may be read. Once, on any thread; must not wait. Nothing
    // ends the call before this is called, but a failed read.
    virtual void OnPlace() = 0;
    // The call is to end. Once, on a thread of the budget's; nothing else is called afterwards.
    virtual void OnLate(Late why) = 0;

   private:
    friend class MessageBudget;
    std::string client_;
    std::string connection_;
    Clock::time_point since_;       // its time
    Clock::time_point read_since_;  // it may have brought something
    bool is_in_ = false;
    bool has_place_ = false;
    bool is_extra_ = false;               // the place
    bool is_stream_ = false;              // has no place, and any time
    std::list<Entry*>::iterator in_all_;  // unless it is a stream's
    std::list<Entry*>::iterator in_connection_;
    std::list<Entry*>::iterator in_waiting_;  // unless it has a place
  };

  // At the call's begin. `client`: has half of the places, of which one of its connections leaves
  // the last to others. A connection without any has an extra place then, while there are some.
  // True: it has a place at once; else OnPlace comes later.
  bool Enter(Entry& entry, const std::string& client, const std::string& connection);
  // A stream's read begins, which may last as long as it likes.
  void EnterStream(Entry& entry, const std::string& client, const std::string& connection);
  // The read is over, with a message of this size; 0: without. False: OnLate has been called,
  // or is about to be.
  bool Leave(Entry& entry, int64_t bytes);
  // The call is cancelled. Whether it waited without a place: it is out then, and has no read.
  bool Withdraw(Entry& entry);

  int64_t num_places() const { return num_places_; }
  std::chrono::milliseconds time() const { return options_.time; }
  std::chrono::milliseconds extra_time() const { return options_.extra_time; }
  int64_t bytes() const { return bytes_; }

 private:
  struct Client {
    ClientCounts places;                               // by connection
    std::map<std::string, std::list<Entry*>> waiting;  // by connection, the longest first
  };

  struct Connection {
    std::string client;
    ConnectionBytes bytes;
    std::list<Entry*> entries;  // the longest first
    Clock::time_point last_use;
    bool is_quiet = false;  // nothing had come between the last two looks
  };

  // REQUIRE mutex_.
  enum class Place : uint8_t { kNone, kUsual, kExtra };
  Place FindPlace(const Entry& entry) const;
  void GivePlace(Entry& entry, Place place);
  void TakeOut(Entry& entry);
  // Those that wait and find a place now, which they have; with numbers for placing_.
  using Placed = std::vector<std::pair<Entry*, uint64_t>>;
  Placed PlaceWaiting();

  void Begin(Entry& entry, const std::string& client, const std::string& connection);
  void Sample(const std::string& name, Connection& connection, Clock::time_point now);
  void NoteReceived(Connection& connection, std::optional<int64_t> received, Clock::time_point now);
  struct Look {
    std::string connection;
    Clock::time_point last;  // look at it
    int64_t delivered = 0;
    std::optional<int64_t> received;
  };
  // Connections with a read that have not been looked at lately.
  std::vector<Look> FindUnseen(Clock::time_point now) const;
  // Looks at those, meanwhile without `lock`.
  void SampleAll(std::unique_lock<std::mutex>& lock, Clock::time_point now);
  // Calls that are to end, and are out.
  using Ending = std::vector<std::pair<Entry*, Late>>;
  void FindLate(Clock::time_point now, Ending& ending);
  // Those of connections that keep too much.
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
  ClientCounts places_;                    // by client, without the extra ones
  ClientCounts extra_places_;              // by client
  std::map<std::string, Client> clients_;  // those with an entry
  int64_t num_waiting_ = 0;
  std::list<Entry*> all_;                          // without those of streams
  std::map<std::string, Connection> connections_;  // those with an entry now, or some time ago
  // Those whose OnPlace is about to be called; they are not late meanwhile.
  std::map<Entry*, uint64_t> placing_;
  uint64_t next_placing_ = 0;
  bool has_woken_ = false;  // a connection that had been quiet, as the last looks showed
  bool stopping_ = false;
  bool resting_ = false;  // the thread looks for nothing until it is woken
  std::condition_variable changed_;
  std::thread thread_;  // begins with the first entry
};

}  // namespace beamline
