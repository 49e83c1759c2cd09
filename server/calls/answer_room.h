// Memory budget for answers of streams of requests. The size of an answer is reserved before it is
// computed, as the client may read it late or never. A request without room is not refused: its
// stream takes it, and all later ones, when there is room.
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

// Thread safe. Outlives its reservations (Place).
class AnswerRoom {
 public:
  // Answers of up to this many bytes need no reservation: the number of requests is limited.
  static constexpr int64_t kSmallBytes = 64 << 10;

  // `limit`: bytes of all answers together. One client gets at most half of it.
  explicit AnswerRoom(int64_t limit) : limit_(limit) {}

  // Reserves the bytes of one answer until it is destroyed.
  class Place {
   public:
    ~Place() { room_.Change(client_, bytes_, 0); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    // Corrects the size once it is known better. Any thread, one at a time.
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

  // Null when there is no room. A client without a reservation always gets one of any size. So a
  // client that reads its answers is served whatever others do.
  PlacePtr Take(const std::string& client, int64_t bytes);
  // Calls `go` with the reservation once there is room: within this call, or on the thread that
  // frees room. `go` must not block, nor use this object. One Wait of a waiter at a time.
  using Go = std::function<void(PlacePtr)>;
  void Wait(const void* waiter, const std::string& client, int64_t bytes, Go go);
  // True if `waiter` was waiting. Its `go` is not called then.
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
  ClientCounts bytes_;         // by client; guarded by mutex_, as all below
  std::list<Waiter> waiters_;  // oldest first
};

}  // namespace beamline
