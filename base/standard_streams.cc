#include "base/standard_streams.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "fmt/format.h"

namespace beamline {
namespace {

void OpenMissingStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) != -1) continue;
    // Opened in the wrong direction, so that reading or writing fails with EBADF. open() uses the
    // lowest free number, which is the missing one.
    if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

int print_errno = 0;  // of the first failed write in Print

// Runs before the initializers of shared libraries, the only point early enough. Libraries open
// descriptors of their own; reading "standard input" from one of these would block forever.
[[gnu::used,
  gnu::section(".preinit_array")]] void (*const open_missing_streams)() = OpenMissingStreams;

}  // namespace

void PrepareStandardStreams() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);  // a log at the file size limit then fails like one on a full disk
}

void Print(std::string_view text) {
  errno = 0;
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written < text.size() && print_errno == 0) print_errno = errno;
}

absl::Status FlushStandardOutput() {
  errno = 0;
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && std::ferror(stdout) == 0) return absl::OkStatus();
  return OutputError(flushed ? print_errno : errno);
}

absl::Status OutputError(int error) {
  if (error == 0) return absl::UnavailableError("standard output cannot be written");
  return absl::UnavailableError(
      fmt::format("standard output cannot be written: {}", std::generic_category().message(error)));
}

}  // namespace beamline
