// What other threads hand to a replica's thread.
#pragma once

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace beamline {

// Any thread puts; one thread takes everything at once.
template <typename T>
class Inbox {
 public:
  // False, and the item is left alone, when the inbox is closed.
  bool Put(T& item) {
    {
      std::lock_guard lock(mutex_);
      if (closed_) return false;
      items_.push_back(std::move(item));
    }
    filled_.notify_one();
    return true;
  }

  // No more items; the taker sees what is there and then closed() == true.
  void Close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    filled_.notify_one();
  }

  // Moves what has come into `items` (which is emptied first). With `wait`, sleeps until there is
  // something, or the end. False when closed.
  bool Take(bool wait, std::vector<T>& items) {
    items.clear();
    std::unique_lock lock(mutex_);
    if (wait) filled_.wait(lock, [this] { return !items_.empty() || closed_; });
    std::swap(items, items_);
    return !closed_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::vector<T> items_;
  bool closed_ = false;
};

}  // namespace beamline
