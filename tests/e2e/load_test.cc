// Many clients at once: every answer is the one that the request gets alone.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client/client.h"
#include "tests/e2e/server_process.h"
#include "tests/test_seed.h"

namespace beamline::load_test {
namespace {

constexpr CallOptions kSoon = {.timeout = std::chrono::seconds(60)};

// A request of one of several kinds, the same for the same number.
v1::GenerateRequest RequestOf(int number) {
  v1::GenerateRequest request;
  const bool translate = number % 2 == 0;
  request.set_model(translate ? "translate-en-de" : "write-en");
  request.mutable_prompt()->set_text(translate
                                         ? "The file number " + std::to_string(number) + " is lost."
                                         : "Package: lib" + std::to_string(number) + "\n");
  request.mutable_limits()->set_max_new_tokens(5 + number % 20);
  if (number % 3 == 0) request.mutable_beam()->set_width(1 + number % 5);
  if (number % 3 == 1) request.mutable_sampling()->set_seed(static_cast<uint64_t>(number));
  if (number % 3 == 2) request.mutable_greedy();
  return request;
}

std::string TextOf(Client& client, int number) {
  const auto answer = client.Generate(RequestOf(number), kSoon);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? answer->sequences(0).text() : "";
}

std::string StreamedTextOf(Client& client, int number) {
  std::string text;
  const auto end = client.GenerateStream(
      RequestOf(number),
      [&text](const v1::GenerateStreamResponse& message) {
        for (const auto& delta : message.deltas()) {
          if (delta.sequence() == 0) text += delta.text();
        }
        return true;
      },
      kSoon);
  EXPECT_TRUE(end.ok()) << end.status();
  return text;
}

// Asks for a stream and leaves after its first message.
void CancelOne(Client& client, int number) {
  v1::GenerateRequest request = RequestOf(number);
  request.mutable_limits()->set_max_new_tokens(200);
  const auto end = client.GenerateStream(
      request, [](const v1::GenerateStreamResponse&) { return false; }, kSoon);
  EXPECT_TRUE(end.ok() || end.status().code() == absl::StatusCode::kCancelled) << end.status();
}

TEST(Load, ThirtyTwoClientsOfEveryKind) {
  constexpr int kClients = 32;
  constexpr int kRequests = 6;
  constexpr int kKinds = 24;
  Client client({.address = SharedServer().address()});
  std::vector<std::string> alone;
  for (int i = 0; i < kKinds; ++i) alone.push_back(TextOf(client, i));
  v1::EncodeRequest encode;
  encode.add_inputs()->set_text("a text editor");
  const auto embedding = client.Encode(encode, kSoon);
  ASSERT_TRUE(embedding.ok()) << embedding.status();

  const unsigned seed = TestSeed();
  SCOPED_TRACE(seed);
  std::atomic<int> done{0};
  std::vector<std::thread> threads;
  for (int c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      std::mt19937 random(seed + static_cast<unsigned>(c));
      Client own({.address = SharedServer().address()});
      for (int r = 0; r < kRequests; ++r) {
        const int number = static_cast<int>(random() % kKinds);
        const auto index = static_cast<size_t>(number);
        switch (random() % 4) {
          case 0:
            EXPECT_EQ(TextOf(own, number), alone[index]) << number;
            break;
          case 1:
            EXPECT_EQ(StreamedTextOf(own, number), alone[index]) << number;
            break;
          case 2:
            CancelOne(own, number);
            break;
          default: {
            const auto answer = own.Encode(encode, kSoon);
            ASSERT_TRUE(answer.ok()) << answer.status();
            ASSERT_EQ(answer->embeddings(0).values_size(), embedding->embeddings(0).values_size());
            for (int i = 0; i < answer->embeddings(0).values_size(); ++i) {
              ASSERT_NEAR(answer->embeddings(0).values(i), embedding->embeddings(0).values(i),
                          1e-5);
            }
          }
        }
        ++done;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kClients * kRequests);

  // Nothing stays behind, cancelled streams included.
  std::string metrics;
  for (int i = 0; i < 100; ++i) {
    metrics = SharedServer().Scrape();
    if (metrics.find("beamline_running_sequences{model=\"write-en\"} 0") != std::string::npos &&
        metrics.find("beamline_waiting_requests{model=\"write-en\"} 0") != std::string::npos) {
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  FAIL() << "sequences still run:\n" << metrics.substr(0, 2000);
}

}  // namespace
}  // namespace beamline::load_test
