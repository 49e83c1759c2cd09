#include "base/send_batch.h"

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

}  // namespace beamline
