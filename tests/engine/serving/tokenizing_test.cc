// Requests whose inputs several threads tokenize.
#include "engine/serving/tokenizing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/intake/encode_intake.h"
#include "engine/serving/entrance.h"
#include "tests/engine/demo_engine.h"

namespace beamline::tokenizing_test {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kLong(60);

// Four of them fill a chunk.
std::string LongText(int number) {
  std::string text = "text " + std::to_string(number);
  while (text.size() < 2000) text += " door";
  return text;
}

class AnswerSink : public EncodeSink {
 public:
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    answer_.set_value(std::move(result));
  }
  absl::StatusOr<EncodeResult> Wait() { return answer_.get_future().get(); }

 private:
  std::promise<absl::StatusOr<EncodeResult>> answer_;
};

// Notes the names of what has been answered, in their order.
class NotingSink : public EncodeSink {
 public:
  NotingSink(std::string name, std::vector<std::string>& answered, std::promise<void>& last)
      : name_(std::move(name)), answered_(answered), last_(last) {}
  void OnFinish(absl::StatusOr<EncodeResult> result) override {
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    answered_.push_back(name_);
    if (answered_.size() == 2) last_.set_value();
  }

 private:
  const std::string name_;
  std::vector<std::string>& answered_;  // by one thread
  std::promise<void>& last_;
};

// Input 0 waits until another one is being tokenized.
class MeetingIntake : public EncodeIntake {
 public:
  static absl::StatusOr<MeetingIntake> Check(EncodeRequest request, const ModelFacts& model) {
    BEAMLINE_ASSIGN_OR_RETURN(EncodeIntake intake, EncodeIntake::Check(std::move(request), model));
    return MeetingIntake(std::move(intake));
  }
  absl::Status TokenizeInput(size_t i, EncodeJob& job) {
    std::unique_lock lock(meeting_->mutex);
    if (i >= kFirstOfOthers) meeting_->other_came = true;
    meeting_->changed.notify_all();
    if (i == 0 && !meeting_->changed.wait_for(lock, kLong, [&] { return meeting_->other_came; })) {
      return absl::DeadlineExceededError("no other thread came");
    }
    lock.unlock();
    return EncodeIntake::TokenizeInput(i, job);
  }

 private:
  static constexpr size_t kFirstOfOthers = 5;  // of inputs, of which a chunk has four
  struct Meeting {
    std::mutex mutex;
    std::condition_variable changed;
    bool other_came = false;
  };
  explicit MeetingIntake(EncodeIntake intake) : EncodeIntake(std::move(intake)) {}

  std::shared_ptr<Meeting> meeting_ = std::make_shared<Meeting>();
};

class TokenizingTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ModelOptions options = Demo("embed-en");
    options.device = "cpu";
    options.max_model_len = 8;  // of which little is computed; texts are cut to it
    auto pool = ReplicaPool::Create({.load = [options](int) {
      return LoadedModel::Load(options, {.cpu = {.num_threads = 1}});
    }});
    ASSERT_TRUE(pool.ok()) << pool.status();
    pool_ = *std::move(pool);
  }
  static void TearDownTestSuite() {
    pool_->Stop(absl::CancelledError("the test is over"));
    pool_ = nullptr;
  }

  EncodeRequest RequestOf(int num_inputs) const {
    EncodeRequest request;
    request.model = "embed-en";
    request.truncate = EncodeTruncation::kRight;
    request.dimensions = 4;
    for (int i = 0; i < num_inputs; ++i) request.inputs.emplace_back(LongText(i));
    return request;
  }
  template <typename Intake = EncodeIntake>
  std::shared_ptr<RequestHandle> Accept(Entrance& entrance, EncodeRequest request,
                                        std::shared_ptr<EncodeSink> sink) {
    auto handle = entrance.Accept<Intake>(std::move(request), std::move(sink),
                                          {pool_, Ticket(pool_->tickets())});
    EXPECT_TRUE(handle.ok()) << handle.status();
    return handle.ok() ? *handle : nullptr;
  }

  static inline std::shared_ptr<ReplicaPool> pool_;
};

TEST_F(TokenizingTest, AnswersAreInTheOrderOfTheInputsOnOneThreadAndOnSeveral) {
  constexpr int kInputs = 24;
  std::vector<EncodeResult> results;
  for (const int num_threads : {1, 3}) {
    Entrance entrance(num_threads);
    const auto sink = std::make_shared<AnswerSink>();
    Accept(entrance, RequestOf(kInputs), sink);
    auto result = sink->Wait();
    ASSERT_TRUE(result.ok()) << result.status();
    ASSERT_EQ(result->embeddings.size(), static_cast<size_t>(kInputs));
    results.push_back(*std::move(result));
  }
  Entrance entrance(1);
  for (size_t i = 0; i < results[0].embeddings.size(); ++i) {
    EXPECT_EQ(results[0].embeddings[i].values, results[1].embeddings[i].values);
  }
  EncodeRequest one = RequestOf(kInputs);
  one.inputs = {one.inputs[17]};
  const auto sink = std::make_shared<AnswerSink>();
  Accept(entrance, one, sink);
  EXPECT_EQ(sink->Wait()->embeddings[0].values, results[1].embeddings[17].values);
}

TEST_F(TokenizingTest, SeveralThreadsShareARequest) {
  Entrance entrance(2);
  const auto sink = std::make_shared<AnswerSink>();
  Accept<MeetingIntake>(entrance, RequestOf(8), sink);
  const auto result = sink->Wait();
  EXPECT_TRUE(result.ok()) << result.status();
}

// No thread waits for one that has other work.
TEST_F(TokenizingTest, OneThreadIsEnough) {
  Entrance entrance(2);
  std::promise<void> over;
  entrance.workers().Post([&] { over.get_future().wait(); });
  const auto sink = std::make_shared<AnswerSink>();
  Accept(entrance, RequestOf(24), sink);
  EXPECT_TRUE(sink->Wait().ok());
  over.set_value();
}

TEST_F(TokenizingTest, TheErrorIsThatOfTheFirstInput) {
  Entrance entrance(4);
  for (int round = 0; round < 20; ++round) {
    EncodeRequest request = RequestOf(40);
    for (const size_t bad : {9, 10, 23, 39}) request.inputs[bad] = "\xff" + LongText(0);
    const auto sink = std::make_shared<AnswerSink>();
    Accept(entrance, std::move(request), sink);
    EXPECT_THAT(std::string(sink->Wait().status().message()),
                HasSubstr("inputs[9].text: text is not valid UTF-8"));
  }
}

// One of 800 KB, which is refused at its end, and one that comes later.
TEST_F(TokenizingTest, AShortRequestPassesALongOne) {
  Entrance entrance(1);
  std::vector<std::string> answered;
  std::promise<void> last;
  EncodeRequest request = RequestOf(400);
  request.inputs.emplace_back("\xff");
  EncodeRequest later = RequestOf(1);
  later.inputs[0] = "\xff" + LongText(0);
  std::promise<void> both;
  entrance.workers().Post([&] { both.get_future().wait(); });
  Accept(entrance, std::move(request), std::make_shared<NotingSink>("long", answered, last));
  Accept(entrance, std::move(later), std::make_shared<NotingSink>("short", answered, last));
  both.set_value();
  last.get_future().wait();
  EXPECT_THAT(answered, testing::ElementsAre("short", "long"));
}

// The threads have other work until its client has cancelled one and the deadline of another has
// passed.
TEST_F(TokenizingTest, ItsClientsCancellationAndDeadlineEndIt) {
  Entrance entrance(2);
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future().share();
  for (int i = 0; i < 2; ++i) entrance.workers().Post([is_over] { is_over.wait(); });
  const auto sink = std::make_shared<AnswerSink>(), late = std::make_shared<AnswerSink>();
  const auto handle = Accept(entrance, RequestOf(24), sink);
  EncodeRequest request = RequestOf(24);
  request.deadline = Clock::now() + std::chrono::milliseconds(200);
  const Clock::time_point deadline = *request.deadline;
  Accept(entrance, std::move(request), late);
  handle->Cancel();
  std::this_thread::sleep_until(deadline);
  over.set_value();
  const auto result = sink->Wait();
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  const auto overdue = late->Wait();
  EXPECT_TRUE(absl::IsDeadlineExceeded(overdue.status())) << overdue.status();
}

// What is tokenized while the entrance closes reaches its answer, whichever it is.
TEST_F(TokenizingTest, ClosingLosesNothing) {
  for (int round = 0; round < 5; ++round) {
    Entrance entrance(2);
    std::vector<std::shared_ptr<AnswerSink>> sinks;
    for (int i = 0; i < 4; ++i) {
      sinks.push_back(std::make_shared<AnswerSink>());
      Accept(entrance, RequestOf(24), sinks.back());
    }
    entrance.Close();
    for (const auto& sink : sinks) {
      const auto result = sink->Wait();
      EXPECT_TRUE(result.ok() || absl::IsCancelled(result.status())) << result.status();
    }
  }
}

}  // namespace
}  // namespace beamline::tokenizing_test
