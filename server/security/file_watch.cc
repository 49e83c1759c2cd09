#include "server/security/file_watch.h"

#include <sys/stat.h>

#include <utility>

#include "fmt/format.h"

namespace beamline {
namespace {

// Identifies the files' versions. The status change time (ctime) also shows a new owner or mode: an
// unreadable file may be readable now.
std::string StateOf(const std::vector<std::string>& paths) {
  std::string state;
  for (const std::string& path : paths) {
    struct stat found {};
    if (stat(path.c_str(), &found) != 0) found = {};
    state += fmt::format("{} {} {} {} {} {} {};", found.st_dev, found.st_ino, found.st_size,
                         found.st_mtim.tv_sec, found.st_mtim.tv_nsec, found.st_ctim.tv_sec,
                         found.st_ctim.tv_nsec);
  }
  return state;
}

}  // namespace

FileWatch::FileWatch(std::vector<std::string> paths, std::function<void()> on_change,
                     std::chrono::milliseconds interval)
    : paths_(std::move(paths)),
      on_change_(std::move(on_change)),
      interval_(interval),
      told_(StateOf(paths_)),
      thread_([this] { Run(); }) {}

FileWatch::~FileWatch() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FileWatch::Run() {
  std::string before = told_;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (wake_.wait_for(lock, interval_, [this] { return stopping_; })) return;
    }
    std::string now = StateOf(paths_);
    if (now != told_ && now == before) {
      told_ = now;
      on_change_();
    }
    before = std::move(now);
  }
}

}  // namespace beamline
