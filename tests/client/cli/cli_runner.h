// The `beamline` program in this process, against a RecordingServer.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "client/cli/cli.h"
#include "gtest/gtest.h"
#include "tests/client/recording_server.h"

namespace beamline::cli {

struct CliResult {
  int status = 0;
  std::string out, err;
};

inline CliResult RunCli(const RecordingServer& server, std::vector<std::string> arguments,
                        const std::string& input = "", bool terminal = false) {
  arguments.insert(arguments.begin(), {"beamline", "--address", server.address()});
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::FILE* in = std::tmpfile();
  std::fwrite(input.data(), 1, input.size(), in);
  std::rewind(in);
  std::ostringstream out, err;
  CliResult result;
  result.status = Run(static_cast<int>(argv.size()), argv.data(), {fileno(in), out, err, terminal});
  std::fclose(in);
  result.out = out.str();
  result.err = err.str();
  return result;
}

// A file of texts, removed with the object.
class TextFile {
 public:
  explicit TextFile(const std::string& text)
      : path_(testing::TempDir() + "cli_texts_" + std::to_string(getpid())) {
    std::ofstream(path_) << text;
  }
  ~TextFile() { std::remove(path_.c_str()); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

}  // namespace beamline::cli
