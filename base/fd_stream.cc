#include "base/fd_stream.h"

#include <unistd.h>

#include <cerrno>

namespace beamline {

FdStreambuf::FdStreambuf(int fd) : fd_(fd) {
  setp(buffer_.data(), buffer_.data() + buffer_.size());
}

FdStreambuf::~FdStreambuf() { WriteBuffer(); }

bool FdStreambuf::WriteBuffer() {
  const char* from = pbase();
  while (error_ == 0 && from < pptr()) {
    const ssize_t size = write(fd_, from, static_cast<size_t>(pptr() - from));
    if (size >= 0) {
      from += size;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  setp(buffer_.data(), buffer_.data() + buffer_.size());
  return error_ == 0;
}

FdStreambuf::int_type FdStreambuf::overflow(int_type c) {
  if (!WriteBuffer()) return traits_type::eof();
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  return sputc(traits_type::to_char_type(c));
}

int FdStreambuf::sync() { return WriteBuffer() ? 0 : -1; }

}  // namespace beamline
