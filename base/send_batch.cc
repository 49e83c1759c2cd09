#include "base/send_batch.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

namespace beamline {
namespace {

thread_local SendBatch* sends_of_this_thread = nullptr;

}  // namespace

SendBatch::SendBatch() : is_outer_(sends_of_this_thread == nullptr) {
  if (is_outer_) sends_of_this_thread = this;
}

SendBatch::~SendBatch() {
  if (!is_outer_) return;
  sends_of_this_thread = nullptr;
  Flush();
}

SendBatch* SendBatch::OfThisThread() { return sends_of_this_thread; }

void SendBatch::Add(int socket) {
  if (std::ranges::find(sockets_, socket) == sockets_.end()) sockets_.push_back(socket);
}

void SendBatch::Flush() {
  // Setting what is set already sends what the kernel keeps (tcp(7)). A socket that has been closed
  // meanwhile has sent all; another one of its number is of this program, whose sockets have it
  // set.
  for (const int socket : sockets_) {
    constexpr int kOn = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
  }
  sockets_.clear();
}

}  // namespace beamline
