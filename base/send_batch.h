// What a thread sends by several sockets in small pieces, one soon after the other: each connection
// gets its pieces together, so that its other side is woken once for all of them.
#pragma once

#include <sys/types.h>

#include <cstddef>

#include "absl/container/inlined_vector.h"

namespace beamline {

// On the stack of a thread. While it exists, who sends says by MSG_MORE (send(2)) that more follows
// in a moment, and the kernel keeps what fills no segment. Whatever is kept leaves at the end, or
// after the kernel's own limit of 200 ms. Inside of another one it does nothing.
class SendBatch {
 public:
  SendBatch();
  // Sends what is kept.
  ~SendBatch();
  SendBatch(const SendBatch&) = delete;
  SendBatch& operator=(const SendBatch&) = delete;

  // Null: the calling thread has none.
  static SendBatch* OfThisThread();

  // The thread has sent a piece by this socket, with MSG_MORE; TCP without Nagle's algorithm, else
  // the kernel keeps nothing. Its number may be another socket's by now: nothing comes of that.
  void Add(int socket);
  // Sends what is kept.
  void Flush();

 private:
  absl::InlinedVector<int, 16> sockets_;  // by which something was sent
  const bool is_outer_;
};

}  // namespace beamline
