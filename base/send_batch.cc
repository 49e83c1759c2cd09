#include "base/send_batch.h"

#include <algorithm>

namespace beamline {
namespace {

thread_local SendBatch* sends_of_this_thread = nullptr;

}  // namespace

SendBatch::SendBatch(absl::FunctionRef<void()> run_rest)
    : run_rest_(run_rest), is_outer_(sends_of_this_thread == nullptr) {
  if (is_outer_) sends_of_this_thread = this;
}

SendBatch::~SendBatch() {
  if (is_outer_) sends_of_this_thread = nullptr;
}

SendBatch* SendBatch::OfThisThread() { return sends_of_this_thread; }

void RunJoined(std::vector<absl::AnyInvocable<void()>>& pieces, size_t most) {
  size_t next = 0;
  while (next < pieces.size()) {
    const size_t end = std::min(next + most, pieces.size());
    const auto run = [&] {
      while (next < end) pieces[next++]();
    };
    const SendBatch sends(run);
    run();
  }
}

}  // namespace beamline
