// An output stream buffer over a file descriptor that keeps the error of a failed write.
#pragma once

#include <array>
#include <ostream>
#include <streambuf>

namespace beamline {

class FdStreambuf final : public std::streambuf {
 public:
  explicit FdStreambuf(int fd);
  ~FdStreambuf() override;

  // The errno of the first failed write; 0: none.
  int error() const { return error_; }

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  bool WriteBuffer();

  const int fd_;
  int error_ = 0;
  std::array<char, 1 << 13> buffer_;
};

}  // namespace beamline
