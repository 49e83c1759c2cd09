// Pieces of work of one thread, each of which sends something by a connection that it may share
// with others: they are carried out before the first of them is sent, so that each connection sends
// once.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"

namespace beamline {

// On the stack of a thread that carries out several such pieces, one soon after the other. Whoever
// is about to send what a piece has given to its connection calls RunRest first; nobody has to.
class SendBatch {
 public:
  // `run_rest` carries out the pieces that are left; called within one of them, and again within
  // those. Inside of another batch this one does nothing.
  explicit SendBatch(absl::FunctionRef<void()> run_rest);
  ~SendBatch();
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  // Null: the calling thread has none.
  static SendBatch* OfThisThread();

  // REQUIRES: the thread holds no lock that a piece may take.
  void RunRest() { run_rest_(); }

 private:
  const absl::FunctionRef<void()> run_rest_;
  const bool is_outer_;
};

// So many pieces are one batch at most: what is sent first does not wait for long.
inline constexpr size_t kMostJoined = 16;

// Carries out all pieces in their order, `most` of them as one batch: a piece may run within the
// one before it.
void RunJoined(std::vector<absl::AnyInvocable<void()>>& pieces, size_t most = kMostJoined);

}  // namespace beamline
