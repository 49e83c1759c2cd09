#include "server/calls/many_stream.h"

#include <utility>

namespace beamline {

void ManyStream::Start() { Advance(std::unique_lock(mutex_)); }

void ManyStream::OnReadDone(bool ok) {
  bool take = false;
  {
    std::lock_guard lock(mutex_);
    if (!ok) reads_done_ = true;
    take = ok && !broken_;
    if (take) ++outstanding_;
    any_taken_ = any_taken_ || take;
  }
  // reading_ stays set meanwhile: the stream cannot finish.
  if (take) Take(in_);
  std::unique_lock lock(mutex_);
  reading_ = false;
  Advance(std::move(lock));
}

void ManyStream::Answer(grpc::ByteBuffer answer, std::unique_ptr<CallState> state) {
  std::unique_lock lock(mutex_);
  waiting_.push_back({std::move(answer), std::move(state)});
  Advance(std::move(lock));
}

void ManyStream::OnWriteDone(bool ok) {
  if (!ok) {
    {
      std::lock_guard lock(mutex_);
      broken_ = true;
    }
    CancelAll();
  }
  std::unique_lock lock(mutex_);
  writing_ = false;
  if (!ok) waiting_.front().state->SetUnsent();
  DropFront();
  Advance(std::move(lock));
}

void ManyStream::OnCancel() {
  {
    std::lock_guard lock(mutex_);
    broken_ = true;
  }
  CancelAll();
  Advance(std::unique_lock(mutex_));
}

void ManyStream::OnDone() {
  {
    std::lock_guard lock(mutex_);
    // A stream that broke may have brought a message that is too large. gRPC refuses it without
    // telling this reactor.
    if (!any_taken_ && !broken_) whole_.Done();
  }
  delete this;
}

void ManyStream::DropFront() {
  waiting_.front().state->Done();
  waiting_.pop_front();
  --outstanding_;
}

void ManyStream::Advance(std::unique_lock<std::mutex> lock) {
  while (broken_ && !writing_ && !waiting_.empty()) {
    waiting_.front().state->SetUnsent();
    DropFront();
  }
  const bool read = !reading_ && !reads_done_ && !broken_ &&
                    outstanding_ < services_.stream_limits.max_outstanding;
  const bool write = !writing_ && !waiting_.empty();
  reading_ = reading_ || read;
  writing_ = writing_ || write;
  const bool finish = !finished_ && !reading_ && !writing_ && outstanding_ == 0;
  finished_ = finished_ || finish;
  const bool broken = broken_;
  const grpc::ByteBuffer* answer = write ? &waiting_.front().answer : nullptr;
  lock.unlock();
  // The stream lives until the last operation's reaction, so that nothing is touched after the last
  // one is started.
  if (finish) return Finish(broken ? grpc::Status::CANCELLED : grpc::Status::OK);
  if (read && write) {
    StartRead(&in_);
    StartWrite(answer);
  } else if (read) {
    StartRead(&in_);
  } else if (write) {
    StartWrite(answer);
  }
}

}  // namespace beamline
