#include "tests/client/held_server.h"

#include <utility>

namespace beamline {

using std::chrono::seconds;

namespace {
constexpr seconds kLongestWait{30};
}  // namespace

// Whoever takes it out of held_ finishes it.
class HeldServer::Held final : public grpc::ServerUnaryReactor {
 public:
  explicit Held(HeldServer& server) : server_(server) {}

 private:
  void OnCancel() override {
    {
      const std::lock_guard lock(server_.mutex_);
      if (server_.held_.erase(this) == 0) return;
    }
    server_.NoteCancelled();
    Finish(grpc::Status(grpc::StatusCode::CANCELLED, "cancelled while it was held"));
  }
  void OnDone() override { delete this; }

  HeldServer& server_;
};

class HeldServer::Stream final : public grpc::ServerWriteReactor<v1::GenerateStreamResponse> {
 public:
  Stream(HeldServer& server, const v1::GenerateRequest& request, const grpc::Status& failure)
      : server_(server), model_(request.model()), text_(request.prompt().text()) {
    if (failure.ok()) {
      WriteNext();
    } else {
      Finish(failure);
    }
  }

 private:
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "nobody reads"));
    if (model_ == "breaks") {
      return Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the server is stopping"));
    }
    if (next_ == text_.size() && model_ == "endless") next_ = 0;
    if (next_ == text_.size()) return Finish(grpc::Status::OK);
    WriteNext();
  }
  void OnCancel() override { server_.NoteCancelled(); }
  void OnDone() override { delete this; }

  void WriteNext() {
    message_.Clear();
    message_.add_deltas()->set_text(text_.substr(next_++, 1));
    if (next_ == text_.size() && model_ != "loses") message_.mutable_end()->set_model(model_);
    StartWrite(&message_);
  }

  HeldServer& server_;
  const std::string model_;
  const std::string text_;
  size_t next_ = 0;
  v1::GenerateStreamResponse message_;
};

HeldServer::HeldServer() {
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(this);
  server_ = builder.BuildAndStart();
  address_ = "127.0.0.1:" + std::to_string(port);
}

HeldServer::~HeldServer() { server_->Shutdown(std::chrono::system_clock::now() + seconds(1)); }

void HeldServer::FailNext(std::deque<grpc::Status> failures) {
  const std::lock_guard lock(mutex_);
  failures_ = std::move(failures);
}

void HeldServer::AnswerAtOnce() {
  const std::lock_guard lock(mutex_);
  answers_at_once_ = true;
}

void HeldServer::AnswerAll() {
  std::set<Held*> held;
  {
    const std::lock_guard lock(mutex_);
    held.swap(held_);
  }
  for (Held* const one : held) one->Finish(grpc::Status::OK);
}

bool HeldServer::WaitForHeld(size_t num_held) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kLongestWait, [&] { return held_.size() >= num_held; });
}

bool HeldServer::WaitForCancelled(size_t num_cancelled) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kLongestWait, [&] { return num_cancelled_ >= num_cancelled; });
}

std::vector<std::chrono::steady_clock::time_point> HeldServer::calls() const {
  const std::lock_guard lock(mutex_);
  return calls_;
}

grpc::Status HeldServer::Begin() {
  const std::lock_guard lock(mutex_);
  calls_.push_back(std::chrono::steady_clock::now());
  if (failures_.empty()) return grpc::Status::OK;
  const grpc::Status failure = failures_.front();
  failures_.pop_front();
  return failure;
}

void HeldServer::NoteCancelled() {
  {
    const std::lock_guard lock(mutex_);
    ++num_cancelled_;
  }
  changed_.notify_all();
}

grpc::ServerUnaryReactor* HeldServer::Generate(grpc::CallbackServerContext*,
                                               const v1::GenerateRequest* request,
                                               v1::GenerateResponse* response) {
  const grpc::Status failure = Begin();
  response->add_sequences()->set_text(request->prompt().text());
  auto* const held = new Held(*this);
  {
    const std::lock_guard lock(mutex_);
    if (failure.ok() && !answers_at_once_) {
      held_.insert(held);
      changed_.notify_all();
      return held;
    }
  }
  held->Finish(failure);
  return held;
}

grpc::ServerWriteReactor<v1::GenerateStreamResponse>* HeldServer::GenerateStream(
    grpc::CallbackServerContext*, const v1::GenerateRequest* request) {
  return new Stream(*this, *request, Begin());
}

}  // namespace beamline
