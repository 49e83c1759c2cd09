// Files that a test writes for itself.
#pragma once

#include <stdlib.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace beamline {

// `name` in a folder of this process's own below the system's temporary one, since tests run beside
// each other. The folder is there and goes when the process ends.
inline std::string ScratchPath(const std::string& name) {
  struct Folder {
    Folder() : path((std::filesystem::temp_directory_path() / "beamline_test_XXXXXX").string()) {
      if (mkdtemp(path.data()) == nullptr) std::abort();
    }
    ~Folder() {
      std::error_code ignored;
      if (getpid() == owner) std::filesystem::remove_all(path, ignored);
    }
    const pid_t owner = getpid();  // not of a process that it forks
    std::string path;
  };
  static const Folder folder;
  return folder.path + "/" + name;
}

}  // namespace beamline
