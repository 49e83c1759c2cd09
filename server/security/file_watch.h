// Files that an operator may replace while the server runs: certificates, say, which a tool renews.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace beamline {

// Looks at files by name again and again, on a thread of its own: a volume of Kubernetes replaces
// them by a link, of which a watch of the files themselves would not hear.
class FileWatch {
 public:
  // Calls `on_change` on that thread when one of the files is another than before, or has another
  // owner or mode, and all have stayed as they are for an interval, so that a key is not read
  // without its certificate.
  FileWatch(std::vector<std::string> paths, std::function<void()> on_change,
            std::chrono::milliseconds interval = std::chrono::milliseconds(500));
  // `on_change` does not run any more when it returns.
  ~FileWatch();

 private:
  void Run();

  const std::vector<std::string> paths_;
  const std::function<void()> on_change_;
  const std::chrono::milliseconds interval_;
  std::string told_;  // how the files were when on_change was last called; at first at the start
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace beamline
