#include <unistd.h>

#include <iostream>

#include "client/cli/cli.h"
#include "client/library_logs.h"

int main(int argc, char** argv) {
  beamline::DropLibraryLogs();
  std::ios::sync_with_stdio(false);
  return beamline::cli::Run(
      argc, argv,
      {std::cin, std::cout, std::cerr, isatty(STDIN_FILENO) == 1, isatty(STDOUT_FILENO) == 1});
}
