// Receives as recvmsg and SSL_read do, by the names that tests/e2e/unguarded_test.cc gives what
// gRPC's library calls: the server's guard does not see it, as with a gRPC that calls others.
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "openssl/ssl.h"

extern "C" __attribute__((visibility("default"))) ssize_t recvmsX(int fd, msghdr* message,
                                                                  int flags) {
  return syscall(SYS_recvmsg, fd, message, flags);
}

extern "C" __attribute__((visibility("default"))) int SSL_reaX(SSL* ssl, void* bytes, int most) {
  size_t size = 0;
  const bool done = SSL_read_ex(ssl, bytes, static_cast<size_t>(most), &size) == 1;
  return done ? static_cast<int>(size) : -1;
}
