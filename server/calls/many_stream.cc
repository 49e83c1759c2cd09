#include "server/calls/many_stream.h"

#include <utility>

#include "server/calls/message_gate.h"

namespace beamline {

void ManyStream::Start(grpc::CallbackServerContext& context, const std::string& identity) {
  context_ = &context;
  message_client_ = MessageClient(context, identity);
  connection_ = context.peer();
  Advance(std::unique_lock(mutex_));
}

void ManyStream::OnReadDone(bool ok) {
  const bool is_late =
      !services_.messages->Leave(*this, ok ? static_cast<int64_t>(in_.Length()) : 0);
  bool take = false;
  {
    std::lock_guard lock(mutex_);
    is_late_ = is_late_ || is_late;
    if (!ok || is_late) reads_done_ = true;
    // The message is complete, but too late. It is not taken, and the stream ends with the error.
    if (ok && is_late && !error_.has_value()) {
      error_ = LateMessage(*services_.messages, MessageBudget::Late::kTooMuch);
    }
    ok = ok && !is_late;
    take = ok && !broken_ && !error_.has_value();
    if (take) ++outstanding_;
    any_taken_ = any_taken_ || take;
  }
  // reading_ stays set meanwhile, so that the stream cannot finish.
  if (take) Take(in_);
  EndTake();
}

void ManyStream::EndTake() {
  std::unique_lock lock(mutex_);
  place_.reset();
  is_later_ = later_bytes_ > 0;
  if (is_later_) {
    ++starting_reads_;  // keeps the stream from finishing meanwhile
    lock.unlock();
    services_.room->Wait(this, later_client_, std::exchange(later_bytes_, 0), [this](auto place) {
      services_.writers.Post([this, place = std::move(place)] { TakeNow(place); });
    });
    lock.lock();
    --starting_reads_;
  } else {
    reading_ = false;
  }
  Advance(std::move(lock));
}

void ManyStream::UseRoom(CallState& state) {
  if (services_.room != nullptr) state.UseRoom(*services_.room, std::exchange(place_, nullptr));
}

bool ManyStream::IsTakenLater(const CallState& state) {
  later_bytes_ = state.wanted_bytes();
  later_client_ = state.client();
  return later_bytes_ > 0;
}

void ManyStream::TakeNow(AnswerRoom::PlacePtr place) {
  bool take = false;
  {
    std::lock_guard lock(mutex_);
    is_later_ = false;
    take = !broken_ && !error_.has_value();
    if (take) {
      place_ = std::move(place);
    } else {
      --outstanding_;
    }
  }
  if (take) Take(in_);
  EndTake();
}

void ManyStream::DropLater() {
  if (!is_later_ || (!broken_ && !error_.has_value())) return;
  if (!services_.room->Forget(this)) return;  // TakeNow is about to be called
  is_later_ = false;
  reading_ = false;
  --outstanding_;
}

void ManyStream::Answer(grpc::ByteBuffer answer, std::unique_ptr<CallState> state) {
  std::unique_lock lock(mutex_);
  PutBack({std::move(answer), std::move(state), {}, {}});
  Advance(std::move(lock));
}

void ManyStream::AnswerPart(grpc::ByteBuffer part, std::function<void()> written) {
  std::unique_lock lock(mutex_);
  PutBack({std::move(part), nullptr, std::move(written), {}});
  Advance(std::move(lock));
}

void ManyStream::AnswerInOrder(uint64_t index, grpc::ByteBuffer answer,
                               std::unique_ptr<CallState> state,
                               std::optional<grpc::Status> error) {
  std::unique_lock lock(mutex_);
  early_[index] = {std::move(answer), std::move(state), {}, std::move(error)};
  bool ends = false;
  for (auto next = early_.begin(); next != early_.end(); next = early_.begin()) {
    if (!error_.has_value() && next->first != next_index_) break;
    Waiting waiting = std::move(next->second);
    early_.erase(next);
    ++next_index_;
    if (error_.has_value()) {
      Drop(std::move(waiting));
    } else if (waiting.error.has_value()) {
      ends = true;
      End(std::move(waiting));
    } else {
      PutBack(std::move(waiting));
    }
  }
  if (ends) {
    // Keeps the stream from finishing until Advance.
    ++outstanding_;
    lock.unlock();
    CancelAll();
    lock.lock();
    --outstanding_;
  }
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
  if (!ok && waiting_.front().state != nullptr) waiting_.front().state->SetUnsent();
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

void ManyStream::OnLate(MessageBudget::Late why) {
  std::unique_lock lock(mutex_);
  late_is_over_ = true;
  if (done_) {
    lock.unlock();
    delete this;
    return;
  }
  if (!error_.has_value()) error_ = LateMessage(*services_.messages, why);
  const bool is_busy = outstanding_ > 0 || writing_;
  if (is_busy && !finished_) {
    // gRPC keeps the incomplete message until the call ends, so the call is cancelled at once.
    ++outstanding_;  // keeps the stream from finishing meanwhile
    lock.unlock();
    context_->TryCancel();
    lock.lock();
    --outstanding_;
  }
  Advance(std::move(lock));
}

void ManyStream::OnDone() {
  {
    std::lock_guard lock(mutex_);
    // A stream that broke may have received a message that is too large. gRPC refuses it without
    // telling this reactor.
    if (!any_taken_ && !broken_ && !error_.has_value()) whole_.Done();
    done_ = true;
    if (is_late_ && !late_is_over_) return;
  }
  delete this;
}

void ManyStream::PutBack(Waiting waiting) {
  waiting.bytes = waiting.answer.Length();
  waiting_bytes_ += waiting.bytes;
  waiting_.push_back(std::move(waiting));
}

void ManyStream::GivePlaceOfFront() {
  const Waiting& front = waiting_.front();
  const auto bytes = static_cast<int64_t>(front.bytes);
  if (front.state == nullptr || bytes > UnreadAnswers::kSmallBytes) return;
  front.state->GivePlacesBefore(bytes);
}

void ManyStream::DropFront() {
  Waiting front = std::move(waiting_.front());
  waiting_.pop_front();
  waiting_bytes_ -= front.bytes;
  if (front.state == nullptr) {
    written_.push_back(std::move(front.written));
    return;
  }
  front.state->Done();
  --outstanding_;
}

void ManyStream::Drop(Waiting waiting) {
  waiting.state->SetUnsent();
  waiting.state->Done();
  --outstanding_;
}

void ManyStream::End(Waiting waiting) {
  error_ = std::move(waiting.error);
  waiting.state->Done();
  --outstanding_;
}

void ManyStream::Advance(std::unique_lock<std::mutex> lock) {
  DropLater();
  while (broken_ && !writing_ && !waiting_.empty()) {
    if (waiting_.front().state != nullptr) waiting_.front().state->SetUnsent();
    DropFront();
  }
  const bool read = !reading_ && !reads_done_ && !broken_ && !error_.has_value() &&
                    outstanding_ < services_.stream_limits.max_outstanding &&
                    waiting_bytes_ < kMostWaitingBytes;
  const bool write = !writing_ && !waiting_.empty();
  reading_ = reading_ || read;
  if (read) ++starting_reads_;
  writing_ = writing_ || write;
  // A read in flight at an error ends with the call.
  const bool finish = !finished_ && (!reading_ || error_.has_value()) && starting_reads_ == 0 &&
                      !writing_ && outstanding_ == 0;
  finished_ = finished_ || finish;
  const grpc::Status status = broken_ ? grpc::Status::CANCELLED : error_.value_or(grpc::Status::OK);
  const grpc::ByteBuffer* answer = write ? &waiting_.front().answer : nullptr;
  if (write) GivePlaceOfFront();
  const std::vector<std::function<void()>> written = std::move(written_);
  written_.clear();
  lock.unlock();
  for (const auto& call : written) call();  // their requests keep the stream alive
  // The stream lives until the reaction to its last operation. So nothing is used after the last
  // operation starts, except for a read: starting_reads_ keeps the stream from finishing.
  if (finish) return Finish(status);
  if (read) {
    services_.messages->EnterStream(*this, message_client_, connection_);
    StartRead(&in_);
  }
  if (write) StartWrite(answer);
  if (!read) return;
  lock.lock();
  --starting_reads_;
  Advance(std::move(lock));
}

}  // namespace beamline
