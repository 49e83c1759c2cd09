// Connections of the processes that the ranks of one model are: the front, which is rank 0, with
// each of the others, the followers. What is sent over them is in the order in which it was sent.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/communicator.h"

namespace beamline {

class RankSocket;  // kernels/rank_sockets.h

// Where processes come together, and who may.
struct RankDoor {
  static constexpr size_t kFewestSecretBytes = 16;
  static constexpr size_t kMostSecretBytes = 256;

  std::string host;    // of the front
  int port = 0;        // of the front
  int size = 0;        // ranks, at least two
  std::string secret;  // of all of them, kFewestSecretBytes to kMostSecretBytes
  // What the ranks are called in messages, where that is not their number here; else empty.
  std::vector<int> names = {};
  std::chrono::nanoseconds join_limit = kRankTimeLimit;  // until all are there
  // How long a rank waits for one that does not go on, once they are connected.
  std::chrono::nanoseconds time_limit = kRankTimeLimit;
  // Once set, waiting until they are connected ends with CANCELLED; may be null.
  const std::atomic<bool>* stop = nullptr;
};

class RankLinks {
 public:
  // What a message is; both ends name the same.
  enum class Kind : uint32_t {
    kSum = 1,
    kGather,
    kBroadcast,
    kMerge,
    kPoint,
    kCall,
    kReply,
    kFault,
    kEnd
  };
  // No message is larger.
  static constexpr size_t kMostBytes = size_t{1} << 30;

  // A message on its way, one of each direction for a link at a time.
  struct Transfer {
    int rank = 0;  // the other one
    Kind kind = Kind::kCall;
    bool sends = false;
    char* data = nullptr;  // read alone, when it sends
    size_t bytes = 0;
    // Instead, for what arrives with a size that nobody knows before.
    std::string* arrives = nullptr;

    static Transfer To(int rank, Kind kind, const void* data, size_t bytes);
    static Transfer From(int rank, Kind kind, void* data, size_t bytes);
    static Transfer From(int rank, Kind kind, std::string& arrives);
  };

  // The front: listens at the door and waits for all followers. Who does not show the secret, the
  // size and a rank that is missing is sent away. UNAVAILABLE naming the ranks that are missing;
  // INVALID_ARGUMENT naming an address that cannot be listened at; CANCELLED.
  static absl::StatusOr<std::shared_ptr<RankLinks>> Gather(const RankDoor& door);
  // The same at a socket that listens already (ListenAt).
  static absl::StatusOr<std::shared_ptr<RankLinks>> Gather(const RankDoor& door,
                                                           RankSocket listener);
  // A follower: asks for the front until it is there. UNAVAILABLE when it does not come;
  // FAILED_PRECONDITION with the front's reason to send this rank away; CANCELLED.
  static absl::StatusOr<std::shared_ptr<RankLinks>> Join(const RankDoor& door, int rank);
  // As End.
  ~RankLinks();
  RankLinks(const RankLinks&) = delete;
  RankLinks& operator=(const RankLinks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // The ranks that this one is connected with: all others, or the front.
  std::vector<int> others() const;
  // "rank 1 at 10.0.0.2:40312".
  std::string NameOf(int rank) const;
  // This process's address on its connection with the first of the others.
  std::string own_host() const;

  // How long to wait for messages.
  struct Patience {
    bool limited = true;  // by the door's time limit; else as long as the other rank is there
    const std::atomic<bool>* stop = nullptr;  // once set, it ends with a fault; may be null
  };

  // Moves all of them, whichever goes on first. False: there is a fault, and what arrives is
  // undefined. One thread at a time.
  bool Move(std::span<const Transfer> transfers, const Patience& patience = {true, nullptr});
  // The same message to every other rank.
  bool Tell(Kind kind, std::string_view message);

  // OK, or the first fault: UNAVAILABLE naming the rank that is lost, or does not go on, or what
  // somebody gave as the reason; CANCELLED when the front has ended. Thread-safe.
  absl::Status fault() const;
  // As fault(), of all that the others have told by now. For the thread that moves messages.
  absl::Status Look();
  // Fails all ranks for good. Only the first fault counts. The others have been told when it
  // returns, as far as they can be. Thread-safe.
  void Fail(const absl::Status& why);
  // Tells the others that there was no fault, where that is so: nothing moves afterwards.
  void End();
  // After a fault, once this rank's device does nothing any more: returns when that is so of every
  // rank, so that each may let go of memory that others reach. Those that are lost count as done.
  // Waits at most `limit` for the others; and, where one was lost without a word, at least
  // kUnheardTime from the fault on, since others may hear of it later than this rank.
  void Part(std::chrono::nanoseconds limit);
  static constexpr std::chrono::seconds kUnheardTime{1};

 private:
  struct Link {
    int rank = 0;
    int socket = -1;
    std::string address;
    bool cut = false;  // in the middle of a message that is sent: nothing more can be
  };
  struct Header;
  struct Progress;

  RankLinks(const RankDoor& door, int rank, std::vector<Link> links);
  int NumberOf(int rank) const;  // in messages
  Link& LinkOf(int rank);
  const Link& LinkOf(int rank) const;
  // With the connections its own alone; tells the others of a fault that came up meanwhile.
  void WithLinks(absl::FunctionRef<void()> work);
  bool MoveAll(std::span<Progress> moving, const Patience& patience);
  // Whether it went on; sets a fault otherwise, or when it has to wait nothing.
  bool GoOn(Progress& transfer);
  bool GoOnSending(Progress& transfer);
  bool GoOnReceiving(Progress& transfer);
  bool TakeHeader(Progress& transfer);
  bool SetFault(const absl::Status& why);  // whether it is the first one
  void Lose(const Link& link, std::string_view how);
  void TakeFault(const Link& link, const std::string& why, Kind kind);
  void TellFault();
  void AwaitEnds(std::chrono::nanoseconds limit);
  void LookForLost(const Link& link);
  void Watch();

  const int rank_;
  const int size_;
  const std::vector<int> names_;
  const std::chrono::nanoseconds time_limit_;
  std::mutex moving_;                // held while messages move; guards links_ and told_
  std::vector<Link> links_;          // ascending ranks
  bool told_ = false;                // of the fault
  const int wake_;                   // an eventfd, readable once there is a fault
  mutable std::mutex mutex_;         // guards all below
  std::condition_variable changed_;  // of the watch
  absl::Status fault_;
  std::chrono::steady_clock::time_point fault_time_;
  bool is_unheard_ = false;  // somebody was lost without a word
  bool ending_ = false;
  std::thread watch_;
};

}  // namespace beamline
