#include "engine/loading/load_progress.h"

#include <utility>

#include "fmt/format.h"

namespace beamline {

LoadProgress::LoadProgress(const Checkpoint& checkpoint, Log log, int64_t least_bytes)
    : log_(std::move(log)) {
  if (!log_) return;
  int64_t bytes = 0;
  for (const std::string& name : checkpoint.TensorNames()) {
    const auto tensor = checkpoint.Find(name);
    if (tensor.ok()) bytes += static_cast<int64_t>(tensor->size);
  }
  if (bytes >= least_bytes) total_bytes_ = bytes;
}

void LoadProgress::Ask(std::string_view name, size_t bytes) {
  if (total_bytes_ == 0) return;
  const std::lock_guard lock(mutex_);
  if (!asked_.emplace(name).second) return;
  const int64_t tenths = read_bytes_ * kLines / total_bytes_;
  if (tenths > told_) {
    told_ = tenths;
    log_(fmt::format(
        "read {}% of {:.2f} GB of weights in {:.1f} s", tenths * 100 / kLines,
        static_cast<double>(total_bytes_) / 1e9,
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count()));
  }
  read_bytes_ += static_cast<int64_t>(bytes);
}

}  // namespace beamline
