#include <unistd.h>

#include <iostream>

#include "base/fd_stream.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "client/cli/cli.h"
#include "client/library_logs.h"

int main(int argc, char** argv) {
  beamline::DropLibraryLogs();
  beamline::PrepareStandardStreams();
  beamline::FdStreambuf buffer(STDOUT_FILENO);
  std::ostream out(&buffer);
  const int status = beamline::cli::Run(
      argc, argv,
      {STDIN_FILENO, out, std::cerr, isatty(STDOUT_FILENO) == 1, isatty(STDERR_FILENO) == 1});
  out.flush();
  if (buffer.error() == 0) return status;
  std::cerr << beamline::ErrorLine("beamline", beamline::OutputError(buffer.error()));
  return status == 0 ? 1 : status;
}
