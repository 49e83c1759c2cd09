// Jobs whose answers are counted.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <memory>

#include "engine/scheduling/encode_job.h"

namespace beamline {

// Notes how many waited when the answer came.
class NotingSink : public EncodeSink {
 public:
  explicit NotingSink(const WaitingCounter& counter) : counter_(counter) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    ++num_answers;
    status = result.status();
    waiting = counter_.count();
  }

  int num_answers = 0;
  absl::Status status;
  int64_t waiting = -1;

 private:
  const WaitingCounter& counter_;
};

class JobTest : public testing::Test {
 protected:
  std::unique_ptr<EncodeJob> NewJob() {
    auto job = std::make_unique<EncodeJob>();
    job->waiting = *WaitingCount::Enter(counter_, std::numeric_limits<int64_t>::max());
    job->sink = sink_;
    job->cancellation = std::make_shared<Cancellation>();
    job->client = "me";
    return job;
  }

  WaitingCounter counter_;
  std::shared_ptr<NotingSink> sink_ = std::make_shared<NotingSink>(counter_);
};

}  // namespace beamline
