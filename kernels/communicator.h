// Collectives: what the ranks of one model do together. A rank is a thread with a device of its own
// that computes a part of every product; its communicator connects it with the others.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "kernels/tensor.h"

namespace beamline {

// How long ranks wait for one that does not come. Longer than a busy machine keeps a thread
// waiting; ranks have the same work between two collectives.
inline constexpr std::chrono::seconds kRankTimeLimit{60};

// What ranks are connected for. All that a communicator can do it does either way; what it was not
// connected for may be slower, and may wait for another rank's call before it returns.
enum class RankTraffic : uint8_t {
  kCollectives,  // ranks that share layers
  kMessages      // stages: each rank sends to the next one
};

// The best candidates of rows whose columns lie on several ranks. Every rank passes what
// TopCandidates found in its own columns and receives what it would have found in all of them:
// values, ids and logits that travel, never the rows.
struct MergeCandidatesParams {
  std::span<const int32_t> counts;  // host, [num_rows], how many to find, 1 .. max_count
  int max_count = 0;
  int32_t first_column = 0;  // of this rank, in the whole row; its ids begin there
  int32_t num_columns = 0;   // of this rank; it passes min(count, num_columns) candidates of a row
  // This rank's, as TopCandidatesParams.
  const float* values = nullptr;           // [num_rows, max_count]
  const int32_t* ids = nullptr;            // [num_rows, max_count]
  const float* raw_values = nullptr;       // [num_rows, max_count]; may be null
  const float* log_normalizers = nullptr;  // [num_rows]; may be null
  // Those of all, descending, ties by the lower id. Null where the above is.
  float* merged_values = nullptr;
  int32_t* merged_ids = nullptr;
  float* merged_raw_values = nullptr;
  float* merged_log_normalizers = nullptr;  // log(sum(exp(log_normalizer)))
};

// One rank's end. Every rank calls the same collectives in the same order, with arguments of the
// same shapes and types where nothing else is said; other calls are programmer errors and CHECK.
// Memory is the rank's own and must not overlap another's. One thread calls at a time, but for
// Abort and status.
//
// What a collective computes is the same bits on every rank, whichever comes first: no rank adds
// for itself what another has added already.
//
// A fault is sticky: when a rank does not come within the time limit, or somebody calls Abort,
// every collective that has not begun on all ranks returns at once, on all of them, and leaves what
// it should have written undefined. As with an operator of a device (kernels/operators.h), nobody
// needs to look before the end of a step: status() tells. Where ranks read each other's memory a
// collective that has begun, for which all ranks came, ends as if nothing had happened, so that
// nobody's memory is let go of while another reads it; on a device it may end anywhere, and what
// other ranks reach stays until the communicator goes.
class Communicator {
 public:
  Communicator(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Communicator() = default;

  int rank() const { return rank_; }  // 0 .. size - 1
  int size() const { return size_; }

  // x = the sum of every rank's x. Activations' types, of which a sum of two terms is the exact one
  // rounded; of more terms a device may round after each. Rows follow each other without gaps.
  void AllReduceSum(const Tensor& x);
  // whole = the ranks' parts beside each other, in the order of the ranks: of a whole of width W,
  // rank r's part is the columns W * r / size .. W * (r + 1) / size, with the rows and the type of
  // the whole.
  void AllGather(const Tensor& part, const Tensor& whole);  // [num_rows, width]
  // x = the x of rank `root`. Rows as of AllReduceSum.
  void Broadcast(const Tensor& x, int root);
  void MergeCandidates(const MergeCandidatesParams& params);

  // Of two ranks alone: x of the one that sends becomes the x of the one that receives, which has
  // the same shape and type. What one rank sends another arrives in the order in which it was sent.
  // When Send is done x may be written again; it may wait for the other's Receive. Rows as of
  // AllReduceSum. A rank that does not come within the time limit is a fault as in a collective.
  void Send(const Tensor& x, int to);
  void Receive(const Tensor& x, int from);

  // OK, or UNAVAILABLE with the first fault. Thread-safe.
  virtual absl::Status status() const = 0;
  // Fails all ranks for good, for the reason that `why` gives. Only the first fault counts.
  // Thread-safe.
  virtual void Abort(const absl::Status& why) = 0;

 protected:
  // A communicator that connects no two ranks alone fails with UNIMPLEMENTED's text.
  virtual void DoSend(const Tensor& x, int to);
  virtual void DoReceive(const Tensor& x, int from);

 private:
  // Of arguments that this rank's part of the contract holds for.
  virtual void DoAllReduceSum(const Tensor& x) = 0;
  virtual void DoAllGather(const Tensor& part, const Tensor& whole) = 0;
  virtual void DoBroadcast(const Tensor& x, int root) = 0;
  virtual void DoMergeCandidates(const MergeCandidatesParams& params) = 0;
  const int rank_;
  const int size_;
};

}  // namespace beamline
