// Watches files that an operator may replace while the server runs, such as renewed certificates.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace beamline {

// Polls the files by name, on its own thread. Kubernetes volumes replace files through a link,
// which inotify on the files would not report.
class FileWatch {
 public:
  // Calls `on_change` on that thread when a file is replaced or modified, or changes its owner or
  // mode. It waits until all files have been stable for an interval, so that a key is not read
  // without its certificate.
  FileWatch(std::vector<std::string> paths, std::function<void()> on_change,
            std::chrono::milliseconds interval = std::chrono::milliseconds(500));
  // `on_change` does not run any more when this returns.
  ~FileWatch();

 private:
  void Run();

  const std::vector<std::string> paths_;
  const std::function<void()> on_change_;
  const std::chrono::milliseconds interval_;
  std::string told_;  // state of the files at the last on_change, initially at the start
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace beamline
