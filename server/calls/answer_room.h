// Room for the answers of streams of requests. What an answer will take is counted before it is
// computed, as its client may read it late or never. A request that finds no room is not refused:
// its stream takes it, and all behind it, when there is room.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/shared_limit.h"

namespace beamline {

// Thread safe. Outlives its places.
class AnswerRoom {
 public:
  // Answers up to this size, in bytes, need no room: requests are limited in number.
  static constexpr int64_t kSmallBytes = 64 << 10;

  // `limit`: bytes of all answers together, half of it for one client.
  explicit AnswerRoom(int64_t limit) : limit_(limit) {}

  // The bytes of one answer, until it goes.
  class Place {
   public:
    ~Place() { room_.Change(client_, bytes_, 0); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // What the answer takes, which is known better now. Any thread, one at a time.
    void Set(int64_t bytes) { room_.Change(client_, std::exchange(bytes_, bytes), bytes); }

   private:
    friend class AnswerRoom;
    Place(AnswerRoom& room, std::string client, int64_t bytes)
        : room_(room), client_(std::move(client)), bytes_(bytes) {}

    AnswerRoom& room_;
    const std::string client_;
    int64_t bytes_;
  };
  using PlacePtr = std::shared_ptr<Place>;

  // Null: there is no room. A client that has none of it gets any size, so that one that reads its
  // answers is served whatever others do.
  PlacePtr Take(const std::string& client, int64_t bytes);
  // Calls `go` with the place once there is room: within this call, or of whoever gives room. It
  // must not wait, nor use the room. One call of a waiter at a time.
  using Go = std::function<void(PlacePtr)>;
  void Wait(const void* waiter, const std::string& client, int64_t bytes, Go go);
  // Whether it waited; its `go` is not called then.
  bool Forget(const void* waiter);

  int64_t bytes() const;

 private:
  struct Waiter {
    const void* name;
    std::string client;
    int64_t bytes;
    Go go;
  };

  PlacePtr TakeLocked(const std::string& client, int64_t bytes);
  void Change(const std::string& client, int64_t before, int64_t after);
  void ServeWaiters();

  const int64_t limit_;
  mutable std::mutex mutex_;
  ClientCounts bytes_;         // guarded, as all below
  std::list<Waiter> waiters_;  // the longest first
};

}  // namespace beamline
