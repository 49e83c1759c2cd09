// A Beamline server without a thread per call: it holds calls of Generate until it is told to
// answer them, or until they are cancelled, and writes streams a message at a time.
#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "beamline/v1/inference.grpc.pb.h"

namespace beamline {

class HeldServer final : public v1::Inference::CallbackService {
 public:
  HeldServer();
  ~HeldServer() override;

  const std::string& address() const { return address_; }

  // The next calls fail so, one after the other, and at once.
  void FailNext(std::deque<grpc::Status> failures);
  // From now on calls of Generate are answered at once.
  void AnswerAtOnce();
  // Answers what is held.
  void AnswerAll();
  // Whether so many calls came to be held, or are cancelled, before long.
  bool WaitForHeld(size_t num_held);
  bool WaitForCancelled(size_t num_cancelled);
  // When calls came.
  std::vector<std::chrono::steady_clock::time_point> calls() const;

 private:
  class Held;
  class Stream;

  // What the prompt says, as the first sequence's text.
  grpc::ServerUnaryReactor* Generate(grpc::CallbackServerContext*, const v1::GenerateRequest*,
                                     v1::GenerateResponse*) override;
  // A message for each character of the prompt, the end with the last one; of the model "endless"
  // it begins again and again, of "breaks" it ends after the first with UNAVAILABLE, of "loses" it
  // has no end.
  grpc::ServerWriteReactor<v1::GenerateStreamResponse>* GenerateStream(
      grpc::CallbackServerContext*, const v1::GenerateRequest*) override;

  // Notes a call; how it fails.
  grpc::Status Begin();
  void NoteCancelled();

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<grpc::Status> failures_;
  bool answers_at_once_ = false;
  std::set<Held*> held_;
  size_t num_cancelled_ = 0;
  std::vector<std::chrono::steady_clock::time_point> calls_;

  std::string address_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace beamline
