// What one rank sends another: order, reuse of memory, and how waits end when a rank fails.
#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/thread_communicator.h"
#include "tests/sanitized.h"

namespace beamline::thread_messages_test {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

Tensor Row(std::vector<float>& values) {
  return Tensor(values.data(), DType::kFloat32, {1, static_cast<int64_t>(values.size())});
}

// Each rank adds its number to what comes and passes it on; the last one has the sums.
TEST(ThreadMessagesTest, MessagesArriveInTheirOrder) {
  const int num_messages = kSanitized ? 100 : 1000;
  for (const int size : {2, 3, 8}) {
    const auto ranks = MakeThreadCommunicators(size);
    std::atomic<int> wrong = 0;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        // One buffer: what has been sent may be written again.
        std::vector<float> x(777);
        for (int message = 0; message < num_messages; ++message) {
          const size_t width = 1 + static_cast<size_t>(message) % x.size();
          std::vector<float> part(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(width));
          if (rank == 0) {
            part.assign(width, static_cast<float>(message));
          } else {
            ranks[rank]->Receive(Row(part), rank - 1);
          }
          for (float& value : part) value += static_cast<float>(rank);
          if (rank + 1 < size) {
            ranks[rank]->Send(Row(part), rank + 1);
          } else if (part != std::vector<float>(
                                 width, static_cast<float>(message + size * (size - 1) / 2))) {
            ++wrong;
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0) << size;
    EXPECT_TRUE(ranks[0]->status().ok());
  }
}

// Ways of different pairs, and of one pair in both directions, know nothing of each other.
TEST(ThreadMessagesTest, PairsDoNotMix) {
  const auto ranks = MakeThreadCommunicators(3);
  std::vector<float> received(3, 0.0f), sent = {1.0f, 2.0f, 3.0f};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const Tensor out(&sent[rank], DType::kFloat32, {1}),
          in(&received[rank], DType::kFloat32, {1});
      const int next = (rank + 1) % 3, before = (rank + 2) % 3;
      if (rank == 0) {
        ranks[rank]->Send(out, next);
        ranks[rank]->Receive(in, before);
      } else {
        ranks[rank]->Receive(in, before);
        ranks[rank]->Send(out, next);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received, (std::vector<float>{3.0f, 1.0f, 2.0f}));
}

TEST(ThreadMessagesTest, ARankThatDoesNotComeIsAFault) {
  for (const bool sends : {false, true}) {
    const auto ranks = MakeThreadCommunicators(3, milliseconds(40));
    float x = 1.0f;
    const Tensor tensor(&x, DType::kFloat32, {1});
    sends ? ranks[0]->Send(tensor, 1) : ranks[1]->Receive(tensor, 0);
    EXPECT_THAT(std::string(ranks[2]->status().message()),
                HasSubstr(sends ? "rank 1 did not receive what rank 0 sent within 40 ms"
                                : "rank 0 did not send what rank 1 receives within 40 ms"));
    x = 5.0f;
    ranks[1]->Receive(tensor, 0);  // returns, and leaves nothing
    ranks[0]->Send(tensor, 1);
    ranks[2]->AllReduceSum(tensor);
    EXPECT_EQ(x, 5.0f);
  }
}

TEST(ThreadMessagesTest, AbortsAtAnyTime) {
  std::mt19937 random(4);
  for (int round = 0; round < (kSanitized ? 20 : 200); ++round) {
    const auto ranks = MakeThreadCommunicators(3);
    const auto delay = std::chrono::microseconds(random() % 300);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        while (ranks[rank]->status().ok()) {
          std::vector<float> x(2000, 1.0f);  // gone after each message
          if (rank > 0) ranks[rank]->Receive(Row(x), rank - 1);
          if (rank < 2) ranks[rank]->Send(Row(x), rank + 1);
        }
      });
    }
    std::this_thread::sleep_for(delay);
    ranks[1]->Abort(absl::CancelledError("enough"));
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(ranks[2]->status().message(), "enough");
  }
}

// A communicator that connects whole groups alone.
class GroupsAlone final : public Communicator {
 public:
  GroupsAlone() : Communicator(0, 2) {}
  absl::Status status() const override { return fault_; }
  void Abort(const absl::Status& why) override { fault_ = why; }

 private:
  void DoAllReduceSum(const Tensor&) override {}
  void DoAllGather(const Tensor&, const Tensor&) override {}
  void DoBroadcast(const Tensor&, int) override {}
  void DoMergeCandidates(const MergeCandidatesParams&) override {}

  absl::Status fault_;
};

TEST(ThreadMessagesTest, WhoCannotSendSaysSo) {
  float x = 1.0f;
  const Tensor tensor(&x, DType::kFloat32, {1});
  GroupsAlone sender, receiver;
  sender.Send(tensor, 1);
  receiver.Receive(tensor, 1);
  EXPECT_EQ(sender.status(), absl::UnimplementedError("rank 0 cannot send to rank 1 alone"));
  EXPECT_EQ(receiver.status(), absl::UnimplementedError("rank 0 cannot receive of rank 1 alone"));
}

}  // namespace
}  // namespace beamline::thread_messages_test
